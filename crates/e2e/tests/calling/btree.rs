//! The B-tree at a real memory server, beside a plain one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use outboard::CallSite;
use outboard_btree::{BTree, BTreeError, Inserter, Tree, TreeOptions};

use crate::world::{Daemons, caller_at, memory};
use outboard_e2e::outboard;

#[test]
fn a_tree_holds_what_an_ordered_map_holds_at_every_site() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let mut random = fastrand::Rng::with_seed(5);
    let mut map: BTreeMap<u64, u64> = (0..2000).map(|key| (key * 1000, key)).collect();
    let shape = TreeOptions { keys: 20_000 };
    let pairs = map.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>();
    Tree::create_with(&mut memory, "tree", &shape, pairs).unwrap();
    let tree = Tree::open(&mut memory, "tree").unwrap();
    let mut inserter = Inserter::new(caller_at(&daemons.tcp(), CallSite::Server), &tree).unwrap();
    for value in 0..3000 {
        let key = random.u64(..2_000_000);
        inserter.insert(key, value).unwrap();
        map.insert(key, value);
    }
    for (address, site) in [
        (daemons.shm(), CallSite::Server),
        (daemons.tcp(), CallSite::Server),
        (daemons.shm(), CallSite::Application),
        (daemons.tcp(), CallSite::Application),
    ] {
        let mut user = BTree::new(caller_at(&address, site), &tree).unwrap();
        for (key, value) in map.iter().step_by(7) {
            assert_eq!(user.lookup(*key).unwrap(), Some(*value), "{key} at {site:?}");
        }
        assert_eq!(user.lookup(u64::MAX - 1).unwrap(), None);
        for from in [0, 1, 999_999, 1_999_000] {
            let expected: Vec<_> = map.range(from..).take(700).map(|(key, value)| (*key, *value)).collect();
            assert_eq!(user.scan(from, 700).unwrap(), expected, "from {from} at {site:?}");
        }
        assert!(matches!(user.scan(0, 1001), Err(BTreeError::BadArguments { .. })));
        assert!(matches!(user.lookup(u64::MAX), Err(BTreeError::BadArguments { .. })));
    }
}

#[test]
fn what_was_inserted_is_found_while_others_insert() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let tree = Tree::create(&mut memory, "tree", &TreeOptions { keys: 30_000 }).unwrap();
    let inserted = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for (number, address) in [daemons.shm(), daemons.tcp()].into_iter().enumerate() {
            let (tree, inserted) = (&tree, &inserted[number]);
            scope.spawn(move || {
                let mut inserter = Inserter::new(caller_at(&address, CallSite::Server), tree).unwrap();
                for index in 0..4000u64 {
                    // One goes up and the other down: both meet in the middle.
                    let key = if number == 0 { index } else { 8000 - index };
                    inserter.insert(key, key * 3).unwrap();
                    inserted.store(index + 1, Ordering::Release);
                }
            });
        }
        for (address, site) in [(daemons.shm(), CallSite::Server), (daemons.shm(), CallSite::Application)] {
            let (tree, inserted) = (&tree, &inserted);
            scope.spawn(move || {
                let mut user = BTree::new(caller_at(&address, site), tree).unwrap();
                let mut random = fastrand::Rng::with_seed(site as u64);
                while inserted.iter().any(|count| count.load(Ordering::Acquire) < 4000) {
                    let [up, down] = [0, 1].map(|number| inserted[number].load(Ordering::Acquire));
                    let known = if random.bool() {
                        random.u64(..up.max(1))
                    } else {
                        8000 - random.u64(..down.max(1))
                    };
                    if (known < up) || (known > 8000 - down) {
                        assert_eq!(user.lookup(known).unwrap(), Some(known * 3), "{known} at {site:?}");
                    }
                    let pairs = user.scan(0, 50).unwrap();
                    let expected = (0..up.min(50)).map(|key| (key, key * 3));
                    assert!(pairs.iter().copied().zip(expected.clone()).all(|(is, should)| is == should));
                    assert!(pairs.len() as u64 >= up.min(50), "{} of {up}", pairs.len());
                }
            });
        }
    });
    let mut user = BTree::new(caller_at(&daemons.shm(), CallSite::Server), &tree).unwrap();
    assert!((0..4000).chain(4001..=8000).all(|key| user.lookup(key).unwrap() == Some(key * 3)));
    assert_eq!(user.lookup(4000).unwrap(), None);
}

#[test]
fn trees_that_cannot_be_are_refused() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let options = TreeOptions::default();
    let unordered = Tree::create_with(&mut memory, "tree", &options, [(2, 0), (2, 1)]);
    assert!(matches!(unordered, Err(BTreeError::NotInOrder { key: 2, before: 2 })), "{unordered:?}");
    let infinite = Tree::create_with(&mut memory, "tree", &options, [(u64::MAX, 0)]);
    assert!(matches!(infinite, Err(BTreeError::NotInOrder { .. })), "{infinite:?}");
    let small = TreeOptions { keys: 10 };
    let full = Tree::create_with(&mut memory, "tree", &small, (0..10_000).map(|key| (key, 0)));
    assert!(matches!(full, Err(BTreeError::Full)), "{full:?}");
    let too_large = Tree::create(&mut memory, "tree", &TreeOptions { keys: u64::MAX });
    assert!(matches!(too_large, Err(BTreeError::TooLarge { .. })), "{too_large:?}");
    memory.reserve_shared(4096, "no tree").unwrap();
    assert!(matches!(Tree::open(&mut memory, "no tree"), Err(BTreeError::NoTree { .. })));
    // Nothing of those that failed is left in the way.
    Tree::create(&mut memory, "tree", &options).unwrap();
}

#[test]
fn the_command_line_serves_a_tree_and_uses_it() {
    let server = Daemons::by(&["btree", "serve", "--keys", "2000", "--filled", "1000"]);
    let run = |arguments: &[&str], at: &str| {
        let output = outboard(&[&["btree"], arguments, &["--server", at]].concat()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    for (number, at) in (0..).zip([&server.shm().to_string(), &server.tcp().to_string()]) {
        let key = format!("{}", 2 * number + 1);
        let (found, json, _) = run(&["get", &key, "--json"], at);
        assert_eq!((found, json), (false, format!("{{\"key\":{key},\"value\":null}}\n")));
        let (found, _, why) = run(&["get", &key], at);
        assert!(!found && why.contains(&format!("there is no key {key} in “btree”")), "{why}");
        assert_eq!(run(&["insert", &key, "44"], at), (true, String::new(), String::new()));
        let (found, value, why) = run(&["get", &key, "--explain"], at);
        assert!(found && value == "44\n" && why.contains("server: 256 slots"), "{value} {why}");
        assert!(run(&["scan", &key, "--count", "1"], at).1.starts_with(&format!("{key} 44\n")));
        assert_eq!(run(&["scan", &key, "--count", "0"], at).1, "");
        assert_eq!(run(&["scan", &key, "--count", "0", "--json"], at).1, "[]\n");
        assert!(run(&["scan", &key, "--count", "2", "--json"], at).1.starts_with(&format!("[[{key},44],[")));
        let (fine, found, why) = run(&["bench", "--keys", "1000", "--seconds", "0.1", "--json"], at);
        assert!(fine && found.contains("\"wrong\":0"), "{found} {why}");
    }
    let made =
        run(&["create", "--tree", "more", "--keys", "1k", "--filled", "10"], &server.shm().to_string());
    assert!(made.0 && made.1.starts_with("made a tree “more” for 1000 keys"), "{made:?}");
    assert!(run(&["scan", "18", "--tree", "more"], &server.shm().to_string()).1.starts_with("18 "));
    let refusals: [(&[&str], &str); 6] = [
        (&["create", "--keys", "10", "--filled", "20"], "--filled 20"),
        (&["get", "1", "--tree", "other"], "`outboard btree create --tree other`"),
        (&["scan", "0", "--count", "1001"], "1000"),
        (&["bench", "--batch", "0"], "from 1 to 4096"),
        (&["bench", "--site", "agent"], "--agent ADDRESS"),
        (&["get", "1", "--tree", "other"], "other"),
    ];
    for (arguments, part) in refusals {
        let (fine, _, why) = run(arguments, &server.shm().to_string());
        assert!(!fine && why.contains(part), "“{part}” is not in “{why}”");
    }
}
