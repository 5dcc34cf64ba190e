use rustix::io::Errno;

use super::*;
use crate::finding::FindingState;
use crate::user::User;

/// Whatever this process may do, the answers agree with each other.
#[test]
fn what_is_found_here_is_consistent() {
    let support = UserfaultfdSupport::probe();
    assert_eq!(
        support.attempts.iter().map(|attempt| attempt.route).collect::<Vec<_>>(),
        DescriptorSource::ALL
    );
    let open = support.attempts.iter().find(|attempt| attempt.refused.is_none());
    assert_eq!(support.how, open.map(|attempt| attempt.route));
    assert_eq!(support.operations.is_some(), support.how.is_some());
    let Some(operations) = &support.operations else {
        println!("skipped: this process can have no userfaultfd: {:?}", support.attempts);
        assert!(!support.is_usable());
        return;
    };
    assert!(operations.copy.works(), "{operations:?}");
    let announced = [
        (Features::MOVE, &operations.relocate),
        (Features::POISON, &operations.poison),
        (Features::PAGEFAULT_FLAG_WP, &operations.write_protect),
        (Features::PAGEFAULT_FLAG_WP, &operations.copy_protected),
    ];
    for (feature, trial) in announced {
        assert_eq!(operations.features.contains(feature), trial.works(), "{feature:?}: {trial:?}");
    }
}

/// Each way that is open is as good as the best one for everything but the kernel's own accesses.
#[test]
fn operations_do_not_depend_on_the_way() {
    let support = UserfaultfdSupport::probe();
    let Some(best) = &support.operations else {
        println!("skipped: this process can have no userfaultfd");
        return;
    };
    for attempt in &support.attempts {
        match attempt.refused {
            None => assert_eq!(Operations::probe(attempt.route), *best, "{:?}", attempt.route),
            Some(errno) => println!("skipped {:?}: {errno}", attempt.route),
        }
    }
}

/// Trials leave nothing registered: memory that is mapped where an arena was is ordinary memory.
#[test]
fn trials_leave_nothing_behind() {
    for _ in 0..50 {
        let support = UserfaultfdSupport::probe();
        let fresh = vec![1u8; 1 << 20];
        assert_eq!(fresh.iter().map(|byte| usize::from(*byte)).sum::<usize>(), 1 << 20, "{support:?}");
    }
}

fn support(refused: [Option<Errno>; 3], operations: Option<Operations>) -> UserfaultfdSupport {
    let attempts: Vec<_> = DescriptorSource::ALL
        .into_iter()
        .zip(refused)
        .map(|(route, refused)| Attempt { route, refused })
        .collect();
    let how = attempts.iter().find(|attempt| attempt.refused.is_none()).map(|attempt| attempt.route);
    UserfaultfdSupport { how, attempts, unprivileged_allowed: Some(false), device_exists: true, operations }
}

fn old_kernel() -> Operations {
    let fails = || Trial::Fails { why: "UFFDIO_SOMETHING: Invalid argument".to_owned() };
    Operations {
        features: Features::PAGEFAULT_FLAG_WP,
        copy: Trial::Works,
        relocate: fails(),
        write_protect: Trial::Works,
        copy_protected: Trial::Works,
        poison: fails(),
    }
}

fn state_of(support: &UserfaultfdSupport, name: &str) -> FindingState {
    let findings = support.findings();
    let finding = findings.iter().find(|finding| finding.name == name).unwrap();
    assert_eq!(finding.state == FindingState::Good, finding.fix.is_none(), "{finding:?}");
    finding.state
}

#[test]
fn an_old_kernel_and_an_ordinary_user_are_limited_but_served() {
    let refused = [Some(Errno::PERM), Some(Errno::ACCESS), None];
    let support = support(refused, Some(old_kernel()));
    assert!(support.is_usable());
    assert!(!support.how.unwrap().serves_the_kernel());
    for name in ["userfaultfd", "UFFDIO_MOVE", "UFFDIO_POISON"] {
        assert_eq!(state_of(&support, name), FindingState::Limited, "{name}");
    }
    for name in ["UFFDIO_COPY", "write protection"] {
        assert_eq!(state_of(&support, name), FindingState::Good, "{name}");
    }
    let fix = support.access_fix(&User::Other { group: "ada".to_owned() });
    assert!(fix.contains("GROUP=\"ada\"") && fix.contains("vm.unprivileged_userfaultfd=1"), "{fix}");
    let fix = support.access_fix(&User::Root);
    assert!(fix.contains("SYS_PTRACE") && !fix.contains("root"), "{fix}");
}

#[test]
fn without_any_userfaultfd_the_fix_fits_the_reason() {
    let closed = support([Some(Errno::PERM), Some(Errno::NOENT), Some(Errno::PERM)], None);
    assert_eq!(state_of(&closed, "userfaultfd"), FindingState::Missing);
    let fix = closed.findings()[0].fix.clone().unwrap();
    assert!(fix.contains("seccomp"), "{fix}");
    let absent = support([Some(Errno::NOSYS), Some(Errno::NOENT), Some(Errno::NOSYS)], None);
    let fix = absent.findings()[0].fix.clone().unwrap();
    assert!(fix.contains("CONFIG_USERFAULTFD"), "{fix}");
}

#[test]
fn programs_read_the_same_as_people() {
    let support = support([None, None, None], Some(old_kernel()));
    let json = serde_json::to_value(&support).unwrap();
    assert_eq!(json["how"], "syscall");
    assert_eq!(json["operations"]["copy"]["outcome"], "works");
    assert_eq!(json["operations"]["move"]["outcome"], "fails");
    assert_eq!(json["operations"]["features"], serde_json::json!(["PAGEFAULT_FLAG_WP"]));
    assert_eq!(json["attempts"][0]["refused"], serde_json::Value::Null);
}
