use super::*;
use crate::characterize::{Conclusions, Party};
use crate::{Effort, Environment};

fn sample(cpu: &str) -> Characterization {
    let mut measurements = Vec::new();
    for (party, link, speed) in
        [(Party::Agent, "shm", 9.0), (Party::MemoryServer, "tcp", 2.0), (Party::MemoryServer, "shm", 8.0)]
    {
        for (number, size) in SIZES.into_iter().enumerate() {
            for operation in MeasuredOperation::ALL {
                let bandwidth = speed * 1e9 * (1.0 - 0.5f64.powi(number as i32 + 1));
                let latency_ns = 900.0 + size as f64 / speed;
                measurements.push(Measurement {
                    party,
                    link,
                    operation,
                    size,
                    node: None,
                    bandwidth,
                    latency_ns,
                });
            }
        }
    }
    let conclusions = Conclusions::draw(&measurements);
    let environment = Environment { cpu: cpu.to_owned(), ..Environment::survey(Effort::Tiny, 2, Vec::new()) };
    Characterization { measurements, conclusions, agent_at_work: None, remarks: Vec::new(), environment }
}

/// The names of all elements, after checking that the text is well-formed: elements nest, attributes are quoted and
/// unique, and nothing else contains markup.
fn elements(text: &str) -> Vec<String> {
    let (mut open, mut seen, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once('<') {
        check_text(before);
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "elements nest");
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        check_attributes(attributes);
        seen.push(name.to_owned());
        if !is_empty {
            open.push(name.to_owned());
        }
    }
    assert!(rest.trim().is_empty() && open.is_empty(), "{open:?} {rest}");
    seen
}

fn check_text(text: &str) {
    assert!(!text.contains('>'), "{text}");
    for part in text.split('&').skip(1) {
        let (entity, _) = part.split_once(';').expect("an entity ends");
        assert!(["lt", "gt", "amp", "quot"].contains(&entity), "{entity}");
    }
}

fn check_attributes(mut text: &str) {
    let mut names = Vec::new();
    while !text.trim().is_empty() {
        let (name, rest) = text.split_once("=\"").expect("attributes have quoted values");
        let (value, rest) = rest.split_once('"').expect("a value ends");
        assert!(name.trim().chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-'), "{name}");
        assert!(!names.contains(&name.trim()), "{name} twice");
        names.push(name.trim());
        check_text(value);
        assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
        text = rest;
    }
}

#[test]
fn the_picture_is_well_formed_whatever_the_machine_is_called() {
    for cpu in ["AMD EPYC", "<script>&\"evil\" \u{1b}[31m ö"] {
        let text = chart(&sample(cpu));
        let elements = elements(&text);
        assert_eq!(elements.first().map(String::as_str), Some("svg"));
        assert!(!text.contains("<script>") && !text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn every_operation_of_every_leg_is_a_line_with_a_point_for_every_size() {
    let elements = elements(&chart(&sample("a processor")));
    let count = |name: &str| elements.iter().filter(|element| *element == name).count();
    let (legs, quantities, operations) = (3, 2, MeasuredOperation::ALL.len());
    assert_eq!(count("polyline"), legs * quantities * operations);
    // The legend has a point for each operation.
    assert_eq!(count("circle"), legs * quantities * operations * SIZES.len() + operations);
}

#[test]
fn titles_labels_and_the_advice_are_there() {
    let text = chart(&sample("a processor"));
    for part in [
        "application – agent over shm",
        "application – memory server over tcp",
        "bandwidth (GB/s)",
        "latency, median (µs)",
        "size of a transfer",
        "64 KiB",
        "32 KiB: 90 % of the peak",
        "send, from application",
        "a processor",
    ] {
        assert!(text.contains(part), "“{part}” is not in {text}");
    }
}

#[test]
fn without_figures_there_is_still_a_picture() {
    let empty = Characterization { measurements: Vec::new(), ..sample("none") };
    assert!(elements(&chart(&empty)).contains(&"text".to_owned()));
}
