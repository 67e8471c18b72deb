//! The filter as a search by halves.
//!
//! When a filter is installed, the kernel runs it for each number that a system call can have, to
//! know which it need not be asked about again. A list that is walked from its beginning makes
//! hundreds of thousands of steps of that, and was a fifth of a neuron's start; halving makes a
//! few thousand.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// Where the number of the call and the architecture are in what a filter is shown.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

const LOAD: u16 = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
const JUMP: u16 = code(libc::BPF_JMP | libc::BPF_JA);
const IS: u16 = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
const IS_AT_LEAST: u16 = code(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K);
const RETURN: u16 = code(libc::BPF_RET | libc::BPF_K);

/// An instruction has two bytes for what it does; the names of the parts are wider.
#[allow(clippy::cast_possible_truncation, reason = "all parts together are below 256")]
const fn code(parts: u32) -> u16 {
    parts as u16
}

/// What is done about a range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Absent,
    Allowed,
    /// The arguments decide: the filter of this call does.
    Asked(u32),
}

/// Compiles the rules for this architecture.
pub(super) fn program(rules: &BTreeMap<i64, Vec<SeccompRule>>) -> Result<BpfProgram, BackendError> {
    let mut program = vec![
        instruction(LOAD, 0, 0, ARCHITECTURE),
        instruction(IS, 1, 0, architecture()),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD, 0, 0, NUMBER),
    ];
    let mut asked = Vec::new();
    halve(&ranges(rules), &mut program, &mut asked);
    let mut places = BTreeMap::new();
    for (call, rules) in rules.iter().filter(|(_, rules)| !rules.is_empty()) {
        if let Ok(number) = u32::try_from(*call) {
            places.insert(number, program.len());
            // Whole: it looks at architecture and number once more, which costs nothing.
            program.append(&mut alone(*call, rules)?);
        }
    }
    for (at, number) in asked {
        let place = places.get(&number).copied().unwrap_or(program.len());
        if let Some(jump) = program.get_mut(at) {
            jump.k = distance(at, place);
        }
    }
    // Never reached; where it were, nothing would be allowed.
    program.push(instruction(RETURN, 0, 0, absent()));
    Ok(program)
}

/// The filter of one call.
fn alone(call: i64, rules: &[SeccompRule]) -> Result<BpfProgram, BackendError> {
    let rules = BTreeMap::from([(call, rules.to_vec())]);
    let otherwise = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, otherwise, SeccompAction::Allow, architecture)?.try_into()
}

/// Where each range of numbers begins, from 0 on, and what is done about it.
fn ranges(rules: &BTreeMap<i64, Vec<SeccompRule>>) -> Vec<(u32, Verdict)> {
    let mut ranges = vec![(0, Verdict::Absent)];
    let mut add = |from: u32, verdict: Verdict| {
        match ranges.last_mut() {
            Some(last) if last.0 == from => last.1 = verdict,
            _ => ranges.push((from, verdict)),
        }
        // Neighbours of one kind are one range.
        if let [.., before, last] = ranges.as_slice()
            && before.1 == last.1
        {
            ranges.pop();
        }
    };
    for (call, rules) in rules {
        let Ok(number) = u32::try_from(*call) else { continue };
        add(number, if rules.is_empty() { Verdict::Allowed } else { Verdict::Asked(number) });
        add(number + 1, Verdict::Absent);
    }
    ranges
}

/// Writes the search among ranges, of which there is one at least.
fn halve(ranges: &[(u32, Verdict)], program: &mut BpfProgram, asked: &mut Vec<(usize, u32)>) {
    let (left, right) = ranges.split_at(ranges.len() / 2);
    let (Some((from, _)), false) = (right.first(), left.is_empty()) else {
        let verdict = ranges.first().map_or(Verdict::Absent, |(_, verdict)| *verdict);
        program.push(match verdict {
            Verdict::Absent => instruction(RETURN, 0, 0, absent()),
            Verdict::Allowed => instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            Verdict::Asked(number) => {
                asked.push((program.len(), number));
                instruction(JUMP, 0, 0, 0)
            }
        });
        return;
    };
    program.push(instruction(IS_AT_LEAST, 0, 1, *from));
    let at = program.len();
    program.push(instruction(JUMP, 0, 0, 0));
    halve(left, program, asked);
    let place = program.len();
    if let Some(jump) = program.get_mut(at) {
        jump.k = distance(at, place);
    }
    halve(right, program, asked);
}

/// How far a jump at `at` goes: counted from the instruction behind it.
fn distance(at: usize, place: usize) -> u32 {
    u32::try_from(place.saturating_sub(at + 1)).unwrap_or(u32::MAX)
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// What a call is told that does not exist.
fn absent() -> u32 {
    libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()
}

/// The name that the kernel has for this architecture: its number for programs, 64 bits wide, with
/// the low byte first.
fn architecture() -> u32 {
    const WIDE: u32 = 0x8000_0000;
    const LOW_FIRST: u32 = 0x4000_0000;
    let machine: u16 =
        if cfg!(target_arch = "aarch64") { libc::EM_AARCH64 } else { libc::EM_X86_64 };
    u32::from(machine) | WIDE | LOW_FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a filter says of a call with these arguments, and how many steps that took.
    fn run(program: &[sock_filter], number: u32, arguments: [u64; 6]) -> (u32, usize) {
        let mut shown = number.to_le_bytes().to_vec();
        shown.extend(architecture().to_le_bytes());
        shown.extend([0; 8]);
        shown.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
        let (mut at, mut taken, mut steps) = (0_usize, 0_u32, 0_usize);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            (at, steps) = (at + 1, steps + 1);
            let is_so = match u32::from(code) & 0xf0 {
                libc::BPF_JEQ => taken == k,
                libc::BPF_JGT => taken > k,
                libc::BPF_JGE => taken >= k,
                _ => taken & k != 0,
            };
            match u32::from(code) {
                code if code == u32::from(LOAD) => {
                    let part = shown[k as usize..][..4].try_into().unwrap();
                    taken = u32::from_le_bytes(part);
                }
                code if code == u32::from(RETURN) => return (k, steps),
                code if code == u32::from(JUMP) => at += k as usize,
                code if code & 7 == libc::BPF_ALU => {
                    assert_eq!(code & 0xf0, libc::BPF_AND, "{code:#x}");
                    taken &= k;
                }
                code if code & 7 == libc::BPF_JMP => at += usize::from(if is_so { jt } else { jf }),
                code => panic!("an instruction that this test does not know: {code:#x}"),
            }
        }
    }

    #[test]
    fn the_search_says_what_the_list_says() {
        let rules = super::super::rules().unwrap();
        let program = program(&rules).unwrap();
        let otherwise = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let architecture = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let list: BpfProgram =
            SeccompFilter::new(rules.clone(), otherwise, SeccompAction::Allow, architecture)
                .unwrap()
                .try_into()
                .unwrap();
        // Values at which a condition of some call turns.
        let values: Vec<u64> = (0..33)
            .map(|bit| 1_u64 << bit)
            .chain([0, 3, 10, 0o644, 0o4755, 0o102, 0x5412, 0x541c, 0xffff_ffff, u64::MAX])
            .collect();
        let mut counts = [0; 2];
        let numbers = (0..600).chain([0x4000_0000, 0x4000_0001, 0x4000_0101, u32::MAX]);
        for number in numbers {
            for (place, value) in (0..6).flat_map(|place| values.iter().map(move |v| (place, *v))) {
                for rest in [0, 0o100, u64::MAX] {
                    let mut arguments = [rest; 6];
                    arguments[place] = value;
                    let (said, steps) = run(&program, number, arguments);
                    let (expected, _) = run(&list, number, arguments);
                    assert_eq!(said, expected, "call {number} with {arguments:x?}");
                    assert!(steps < 100, "{steps} steps for call {number}");
                    counts[usize::from(said == libc::SECCOMP_RET_ALLOW)] += 1;
                }
            }
        }
        assert!(counts.iter().all(|count| *count > 10_000), "{counts:?}");
        let all: usize = (0..450).map(|number| run(&program, number, [0; 6]).1).sum();
        assert!(all < 450 * 30, "{all} steps for all calls");
    }

    #[test]
    fn another_architecture_is_not_believed() {
        let program = program(&super::super::rules().unwrap()).unwrap();
        assert_eq!(program[1].k, architecture());
        assert_eq!((program[2].code, program[2].k), (RETURN, libc::SECCOMP_RET_KILL_PROCESS));
    }
}
