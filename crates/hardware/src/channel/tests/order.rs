//! In whatever order of calls: what comes late, or is asked for ahead, is served as if it had come in time.

use super::*;

#[test]
fn a_call_that_comes_late_is_answered_as_if_it_had_come_in_time() {
    // The last of a group of reads is called first.
    for seed in 0..40 {
        let mut requests = stream(seed, 12, 20, 0, 1, 0);
        // It cannot pass any of the others.
        if let Some(last) = requests.last_mut() {
            last.arrival += 400;
        }
        let expected: Vec<u64> = {
            let mut channel = channel(rules(), 1);
            requests.iter().map(|one| channel.read(*one)).collect()
        };
        let last = requests.len() - 1;
        let mut channel = channel(rules(), 1);
        let late = requests.pop().map(|one| channel.read(one));
        let found: Vec<u64> = requests.iter().map(|one| channel.read(*one)).collect();
        assert_eq!(found, expected[..last], "seed {seed}, {late:?}");
    }
}

#[test]
fn the_search_finds_all_that_a_read_may_precede() {
    // Beside a channel that takes back all commands after a read's arrival. Reads get the same answers; where
    // batches of writes or refreshes meet late calls, the two may part, without a difference in the mean.
    let (mut answers, mut other, mut sums) = (0, 0, (0, 0));
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let ranks = 1 << random.below(2);
        let rules = Rules {
            refi: 3000,
            rfc: 300,
            row_hit_cap: 1 + random.below(20) as u32,
            turn_cap: 1 + random.below(80) as u32,
            ..rules()
        };
        let (gap, late, writes) = (8 + random.below(40), random.below(300), random.below(2) * random.below(50));
        let requests = stream(seed, 2000, gap, late, ranks, writes);
        let times = |exhaustive| {
            let mut channel = channel(rules, ranks);
            channel.exhaustive = exhaustive;
            let mut answer = |one: &Request| {
                if one.write {
                    channel.write(*one);
                    return 0;
                }
                channel.read(*one) - one.arrival
            };
            requests.iter().map(&mut answer).collect::<Vec<u64>>()
        };
        let (all, found) = (times(true), times(false));
        let differ = all.iter().zip(&found).filter(|(a, b)| a != b).count();
        if writes == 0 {
            answers += requests.len();
            other += differ;
        }
        sums = (sums.0 + all.iter().sum::<u64>(), sums.1 + found.iter().sum::<u64>());
    }
    assert!(answers > 0 && other * 1000 < answers, "{other} of {answers} answers differ");
    assert!(sums.0.abs_diff(sums.1) * 200 < sums.0, "{sums:?}");
}

#[test]
fn what_is_sent_does_not_depend_on_the_order_in_which_requests_are_asked_for() {
    // Reads and writes that are asked for out of the order of time, up to full queues, beside the same in order. A batch is
    // released when the write arrives that makes it full, whatever was planned then; reads that come late put it off.
    let (mut waits, mut batches, mut reads) = ((0, 0), (0, 0), 0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let ranks = 1 << random.below(2);
        let gap = 5 + random.below(30);
        let mut requests = stream(seed, 3000, gap, 100 + random.below(400), ranks, 25 + random.below(25));
        (1..).zip(&mut requests).for_each(|(number, one)| one.line = number);
        let rules = Rules { refi: 3000, rfc: 300, write_queue: 64, write_high: 48, write_low: 16, ..rules() };
        let run = |requests: &[Request]| {
            let mut channel = channel(rules, ranks);
            for one in requests {
                if one.write {
                    channel.write(*one);
                } else {
                    channel.read(*one);
                }
            }
            channel.drain();
            let of_batches = channel.tally.batches;
            let mut log = Vec::new();
            channel.take_log(true, &mut log);
            let wait = |sent: &Sent| match sent {
                Sent::Column { request, column, .. } if !request.write => column - request.arrival,
                _ => 0,
            };
            (log.iter().map(wait).sum::<u64>(), of_batches)
        };
        let found = run(&requests);
        requests.sort_by_key(|one| one.arrival);
        let expected = run(&requests);
        waits = (waits.0 + found.0, waits.1 + expected.0);
        batches = (batches.0 + found.1, batches.1 + expected.1);
        reads += requests.iter().filter(|one| !one.write).count();
    }
    assert!(batches.1 > 500 && waits.1 > 100 * reads as u64, "{batches:?} batches, {waits:?} clocks in {reads} reads");
    assert!(waits.0.abs_diff(waits.1) * 50 < waits.1, "{waits:?} clocks");
    assert!(batches.0.abs_diff(batches.1) * 50 < batches.1 as u64, "{batches:?} batches");
}

#[test]
fn a_read_that_was_asked_for_ahead_is_served_as_if_it_had_come_when_it_is_sent() {
    // Some reads are asked for ahead, at a time that is too early, and sent at their own. The others are asked for in the
    // order of time.
    let (mut ahead, mut served, mut differ) = (0, 0, 0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let ranks = 1 << random.below(2);
        let rules = Rules { refi: 3000, rfc: 300, ..rules() };
        let mut requests = stream(seed, 1500, 6 + random.below(30), 0, ranks, 30);
        // No two come at once: the one that was asked for first would be the older one.
        (1..).zip(&mut requests).for_each(|(number, one)| (one.line, one.arrival) = (number, one.arrival + number));
        let mut expected = channel(rules, ranks);
        let mut found = channel(rules, ranks);
        let mut early: Vec<u64> = Vec::new();
        for (at, one) in requests.iter().enumerate() {
            let now = one.arrival;
            // Some of the next are asked for now.
            for later in requests[at + 1..].iter().take(6) {
                let known = early.contains(&later.line);
                if !later.write && later.arrival > now && !known && random.below(8) == 0 {
                    let said = now + 1 + random.below(later.arrival - now);
                    found.read_ahead(Request { arrival: said, ..*later }, said);
                    early.push(later.line);
                }
            }
            let was_early = early.contains(&one.line);
            for (channel, asked) in [(&mut expected, false), (&mut found, was_early)] {
                if one.write {
                    channel.write(*one);
                } else if !asked {
                    channel.read(*one);
                } else {
                    assert!(channel.is_ahead(one.line));
                    assert_eq!(channel.send_ahead(one.line, |_| now), Some(now));
                    assert!(!channel.is_ahead(one.line));
                    ahead += 1;
                }
            }
        }
        let columns = |mut channel: Channel| {
            channel.drain();
            let column = |sent: &Sent| match sent {
                Sent::Column { request, column, .. } => Some((request.line, request.write, *column)),
                _ => None,
            };
            sent(channel).iter().filter_map(column).collect::<Vec<_>>()
        };
        let (expected, found) = (columns(expected), columns(found));
        assert_eq!(expected.len(), found.len(), "seed {seed}");
        served += expected.len();
        differ += expected.iter().zip(&found).filter(|(expected, found)| expected != found).count();
    }
    assert!(ahead * 20 > served && served > 50_000, "{ahead} of {served}");
    // Batches and refreshes that began beside one may stay.
    assert!(differ * 100 < served, "{differ} of {served} commands differ");
}

#[test]
fn who_asks_again_learns_when_a_line_arrives() {
    // Reads and writes in the order of time, up to full queues. Who reads asks again when the told time has come,
    // until it stays: no sooner than the line arrives. Later for few, because a request that comes may also let
    // another go earlier, and nobody is told.
    let (mut reads, mut too_soon, mut changed) = (0, 0, 0);
    let (mut at_first, mut at_last, mut in_fact) = (0, 0, 0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let ranks = 1 << random.below(2);
        let rules = Rules { refi: 3000, rfc: 300, write_queue: 64, ..rules() };
        let mut requests = stream(seed, 2000, 6 + random.below(30), 0, ranks, 30);
        (1..).zip(&mut requests).for_each(|(number, one)| one.line = number);
        let mut channel = channel(rules, ranks);
        channel.keep_log(true);
        // Told clocks and lines, the earliest first; and by line, the clocks that were told first and last.
        let mut waiting = std::collections::BTreeSet::new();
        let mut told: Vec<(u64, u64)> = vec![(0, 0); requests.len() + 1];
        let end = Request { arrival: u64::MAX, write: true, ..requests[0] };
        for one in requests.iter().chain([&end]) {
            while let Some((clock, line)) = waiting.pop_first() {
                if clock > one.arrival {
                    waiting.insert((clock, line));
                    break;
                }
                told[line as usize].1 = clock;
                if let Some(Told { planned, .. }) = channel.arrival(line).filter(|told| told.planned > clock) {
                    waiting.insert((planned, line));
                }
            }
            if one.arrival == u64::MAX {
                continue;
            }
            if one.write {
                channel.write(*one);
            } else {
                let clock = channel.read(*one);
                told[one.line as usize] = (clock, clock);
                waiting.insert((clock, one.line));
            }
        }
        let mut log = Vec::new();
        channel.take_log(true, &mut log);
        for sent in &log {
            let Sent::Column { request, column, .. } = sent else { continue };
            if request.write {
                continue;
            }
            let arrives = column + rules.cl + rules.burst;
            let (first, last) = told[request.line as usize];
            reads += 1;
            changed += usize::from(first != last);
            too_soon += usize::from(last < arrives);
            at_first += first - request.arrival;
            at_last += last - request.arrival;
            in_fact += arrives - request.arrival;
        }
    }
    assert!(reads > 40_000 && changed * 20 > reads, "{changed} of {reads} times change");
    assert!(too_soon * 300 < reads, "{too_soon} of {reads} lines are awaited no longer before they arrive");
    assert!(at_last.abs_diff(in_fact) * 70 < in_fact, "{at_last} clocks in all, and {in_fact} in fact");
    assert!(at_first.abs_diff(in_fact) * 50 > in_fact, "{at_first} clocks are told at first, and {in_fact} pass");
}
