use super::*;

/// Figures of one operation, for sizes that double from 4 KiB: GB/s and µs.
fn figures(
    (party, link): (Party, &'static str),
    operation: MeasuredOperation,
    node: Option<u32>,
    values: &[(f64, f64)],
) -> Vec<Measurement> {
    let figure = |(index, (gigabytes, micros)): (usize, &(f64, f64))| Measurement {
        party,
        link,
        operation,
        size: 4096 << index,
        node,
        bandwidth: gigabytes * 1e9,
        latency_ns: micros * 1e3,
    };
    values.iter().enumerate().map(figure).collect()
}

const AGENT: (Party, &str) = (Party::Agent, "shm");
const SERVER: (Party, &str) = (Party::MemoryServer, "tcp");

/// A server whose reads level off at 16 KiB, and an agent that is three times as fast at 64 KiB.
fn usual() -> Vec<Measurement> {
    let server_read = [(1.0, 10.0), (1.7, 11.0), (1.9, 12.0), (2.0, 20.0), (1.9, 40.0)];
    let server_send = [(0.9, 14.4), (1.5, 11.2), (1.8, 10.0), (1.9, 16.0), (1.9, 32.0)];
    let agent_read = [(3.0, 1.0), (6.0, 1.0), (7.0, 2.0), (8.0, 4.0), (7.6, 8.0)];
    let agent_send = [(2.0, 3.0), (4.0, 3.0), (5.7, 6.0), (5.8, 9.0), (5.7, 18.0)];
    [
        figures(SERVER, MeasuredOperation::Read, None, &server_read),
        figures(SERVER, MeasuredOperation::Ask, None, &server_send),
        figures(AGENT, MeasuredOperation::Ask, None, &agent_send),
        figures(AGENT, MeasuredOperation::Read, None, &agent_read),
    ]
    .concat()
}

#[test]
fn a_chunk_is_the_smallest_size_with_nine_tenths_of_the_peak() {
    let conclusions = Conclusions::draw(&usual());
    let sizes: Vec<_> = conclusions.chunks.iter().map(|chunk| (chunk.party, chunk.size_bytes)).collect();
    assert_eq!(sizes, [(Party::MemoryServer, 16 << 10), (Party::Agent, 16 << 10)]);
    assert_eq!(conclusions.chunks[0].peak_bytes_per_s, 2e9);
    // Exactly nine tenths are enough; a peak at a small size needs no larger one.
    let exact = figures(SERVER, MeasuredOperation::Read, None, &[(1.7, 1.0), (1.8, 1.0), (2.0, 1.0)]);
    assert_eq!(Conclusions::draw(&exact).chunks[0].size_bytes, 8 << 10);
    let falling = figures(SERVER, MeasuredOperation::Read, None, &[(9.0, 1.0), (5.0, 1.0)]);
    assert_eq!(Conclusions::draw(&falling).chunks[0].size_bytes, 4 << 10);
}

#[test]
fn the_faster_protocol_is_found_for_each_size() {
    let conclusions = Conclusions::draw(&usual());
    let [server, agent] = &conclusions.protocols[..] else { panic!("{:?}", conclusions.protocols) };
    assert_eq!((server.party, server.direction), (Party::MemoryServer, Direction::ToApplication));
    let spans: Vec<_> =
        server.spans.iter().map(|span| (span.first_bytes, span.last_bytes, span.faster)).collect();
    assert_eq!(
        spans,
        [
            (4 << 10, 4 << 10, Some(Sides::One)),
            (8 << 10, 8 << 10, None),
            (16 << 10, 64 << 10, Some(Sides::Two)),
        ]
    );
    assert!((server.spans[2].factor[0] - 1.2).abs() < 1e-9, "{server:?}");
    assert!((server.spans[2].factor[1] - 1.25).abs() < 1e-9, "{server:?}");
    assert_eq!(agent.spans.len(), 1);
    assert_eq!(agent.spans[0].factor, [2.25, 3.0]);
}

#[test]
fn one_disturbed_figure_does_not_change_the_verdict() {
    let calm = [(1.0, 10.0); 5];
    let mut disturbed = [(1.0, 20.0); 5];
    disturbed[2].1 = 1.0;
    let measurements = [
        figures(SERVER, MeasuredOperation::Read, None, &calm),
        figures(SERVER, MeasuredOperation::Ask, None, &disturbed),
    ];
    let conclusions = Conclusions::draw(&measurements.concat());
    assert_eq!(conclusions.protocols[0].spans.len(), 1, "{conclusions:?}");
    assert_eq!(conclusions.protocols[0].spans[0].faster, Some(Sides::One));
}

#[test]
fn the_hit_rate_needed_is_the_ratio_of_the_bandwidths() {
    let conclusions = Conclusions::draw(&usual());
    let [advice] = &conclusions.caching[..] else { panic!("{:?}", conclusions.caching) };
    assert_eq!((advice.agent_link, advice.server_link, advice.chunk_bytes), ("shm", "tcp", 64 << 10));
    assert!((advice.ratio - 1.0 / 3.0).abs() < 1e-9, "{advice:?}");
    assert_eq!(advice.hit_rate_needed, Some(advice.ratio));
    assert!((advice.static_gain - 4.0).abs() < 1e-9, "{advice:?}");
}

#[test]
fn an_agent_that_is_no_faster_than_the_server_cannot_cache_dynamically() {
    let slow = [
        figures(SERVER, MeasuredOperation::Read, None, &[(4.0, 1.0); 5]),
        figures(AGENT, MeasuredOperation::Ask, None, &[(4.0, 1.0); 5]),
        figures(AGENT, MeasuredOperation::Read, None, &[(3.0, 1.0); 5]),
    ]
    .concat();
    let conclusions = Conclusions::draw(&slow);
    assert_eq!((conclusions.caching[0].ratio, conclusions.caching[0].hit_rate_needed), (1.0, None));
    let text = conclusions.sentences().join("\n");
    assert!(text.contains("cannot pay") && text.contains("saves traffic but no time"), "{text}");
}

#[test]
fn without_one_of_the_two_there_is_no_word_of_caching() {
    for party in [AGENT, SERVER] {
        let alone = figures(party, MeasuredOperation::Read, None, &[(4.0, 1.0), (5.0, 2.0)]);
        assert_eq!(Conclusions::draw(&alone).caching, []);
    }
    assert_eq!(Conclusions::draw(&[]), Conclusions::default());
}

#[test]
fn nodes_are_compared_where_there_are_several() {
    let node =
        |number, gigabytes| figures(SERVER, MeasuredOperation::Read, Some(number), &[(gigabytes, 1.0); 6]);
    let conclusions = Conclusions::draw(&[node(0, 3.0), node(2, 9.0), node(3, 2.0)].concat());
    let [advice] = &conclusions.nodes[..] else { panic!("{:?}", conclusions.nodes) };
    assert_eq!((advice.best, advice.worst), (2, 3));
    // All other conclusions are for the best node.
    assert_eq!(conclusions.chunks[0].peak_bytes_per_s, 9e9);
    assert_eq!(Conclusions::draw(&node(0, 3.0)).nodes, []);
}

#[test]
fn people_read_all_of_it() {
    let text = Conclusions::draw(&usual()).sentences().join("\n");
    for part in [
        "memory server over tcp: 16 KiB is the smallest that fetches at 90 % of the best bandwidth (1.90 GB/s of 2.00 GB/s)",
        "fetching from the memory server over tcp: one-sided is faster for 4 KiB (1.2 times); both take equally long \
         for 8 KiB; two-sided is faster for 16 KiB to 64 KiB (1.2 times)",
        "fetching from the agent over shm: one-sided is faster for all sizes (2.2 to 3.0 times)",
        "= 0.33 at 64 KiB, so dynamic caching pays above a hit rate of 33 %; static caching makes fetches 4.0 times faster",
    ] {
        assert!(text.contains(part), "“{part}” is not in:\n{text}");
    }
}
