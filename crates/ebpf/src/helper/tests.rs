use super::*;

fn helper(id: u32, name: &str, arguments: &[Argument], returns: Returns) -> Helper {
    Helper { id, name: name.to_owned(), arguments: arguments.to_vec(), returns, may_suspend: false }
}

fn refused(helpers: Vec<Helper>) -> HelperError {
    Helpers::new(helpers).unwrap_err()
}

#[test]
fn helpers_are_found_by_number() {
    let helpers = [7, 3, u32::MAX].map(|id| helper(id, &format!("h{id}"), &[], Returns::Scalar));
    let helpers = Helpers::new(helpers.to_vec()).unwrap();
    assert_eq!(helpers.get(7).unwrap().name, "h7");
    assert_eq!(helpers.index_of(u32::MAX), Some(2));
    assert!(helpers.get(4).is_none());
}

#[test]
fn tables_that_contradict_themselves_are_refused() {
    let scalar = Returns::Scalar;
    let twice = vec![helper(1, "a", &[], scalar), helper(1, "b", &[], scalar)];
    assert_eq!(refused(twice), HelperError::Twice { id: 1 });
    let same_name =
        vec![helper(1, "a", &[], scalar), helper(5, "b", &[], scalar), helper(9, "a", &[], scalar)];
    assert_eq!(refused(same_name), HelperError::Name { id: 9, name: "a".to_owned() });
    for name in ["", "5", "a b", "a-b"] {
        let error = refused(vec![helper(1, name, &[], scalar)]);
        assert_eq!(error, HelperError::Name { id: 1, name: name.to_owned() });
    }
    let many = vec![helper(1, "a", &[Argument::Scalar; 6], scalar)];
    assert_eq!(refused(many), HelperError::Arguments { id: 1, count: 6 });
    let slot = Returns::Buffer { slot: Quantity::Fixed(GRANTS as u32), length: Quantity::Fixed(1) };
    assert_eq!(refused(vec![helper(1, "a", &[], slot)]), HelperError::Slot { id: 1, slot: GRANTS as u32 });
}

#[test]
fn quantities_come_from_scalars() {
    let reads = |argument| Argument::Reads(Quantity::Argument(argument));
    assert!(Helpers::new(vec![helper(1, "a", &[reads(1), Argument::Scalar], Returns::Scalar)]).is_ok());
    for argument in [0, 2, 5, 255] {
        let error = refused(vec![helper(1, "a", &[reads(argument), Argument::Scalar], Returns::Scalar)]);
        assert_eq!(error, HelperError::Quantity { id: 1, argument });
    }
    let buffer = Returns::Buffer { slot: Quantity::Argument(0), length: Quantity::Fixed(1) };
    assert_eq!(refused(vec![helper(1, "a", &[], buffer)]), HelperError::Quantity { id: 1, argument: 0 });
}

#[test]
fn a_helper_writes_only_where_it_is_declared_to() {
    let mut memory = ProgramMemory::new(crate::memory::ProgramLimits::default());
    memory.set_context(&[0; 32]).unwrap();
    let context = crate::memory::CONTEXT;
    let helper =
        helper(1, "a", &[Argument::Writes(Quantity::Argument(1)), Argument::Scalar], Returns::Scalar);
    let arguments = [context + 4, 8, 0, 0, 0];
    let mut reach = HelperMemory::new(&mut memory, &helper, &arguments);
    assert!(reach.write(context + 4, &[1; 8]).is_ok());
    assert!(reach.write(context + 11, &[1]).is_ok());
    for (address, length) in [(context + 3, 1), (context + 12, 1), (context + 4, 9), (0, 1), (u64::MAX, 1)] {
        let error = reach.write(address, &vec![1; length]).unwrap_err();
        assert_eq!(error, ReachError::Undeclared { address, length });
    }
    assert_eq!(reach.read(context, 13).unwrap()[3..13], [0, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert!(matches!(reach.grant(8), Err(ReachError::NoGrant)));
    // Whatever the program passes, its own memory is the limit.
    let arguments = [context, u64::MAX, 0, 0, 0];
    let mut reach = HelperMemory::new(&mut memory, &helper, &arguments);
    assert!(matches!(reach.write(context + 31, &[1; 2]), Err(ReachError::Fault(_))));
}
