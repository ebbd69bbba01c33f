use super::*;
use tempfile::tempdir;

const A: &str = "0123456789abcdef0123456789abcdef";
const B: &str = "fedcba9876543210fedcba9876543210";

fn worker(folder: &Path, token: &str, timeout: u64) -> Claims {
    let own = Holder { token: token.into(), ..Holder::this(1) };
    Claims::open(folder, own, Duration::from_millis(timeout)).unwrap()
}

/// A claim of a worker on another machine.
fn leave(folder: &Path, cell: &str, age: Duration) {
    let path = folder.join("claims").join(cell);
    let text = serde_json::to_string(&Holder { token: "gone".into(), host: "elsewhere".into(), ..Holder::default() });
    fs::write(&path, text.unwrap()).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn one_of_many_workers_gets_a_cell() {
    let scratch = tempdir().unwrap();
    let taken: usize = std::thread::scope(|scope| {
        let take = |number: usize| {
            let mut claims = worker(scratch.path(), &number.to_string(), 60_000);
            scope.spawn(move || {
                let taken = (0..40).filter(|cell| claims.take(&format!("{cell:032x}")).unwrap()).count();
                std::mem::forget(claims);
                taken
            })
        };
        let threads: Vec<_> = (0..4).map(take).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 40);
}

#[test]
fn a_claim_ends_when_it_is_released_or_its_worker_ends() {
    let scratch = tempdir().unwrap();
    let (mut one, mut two) = (worker(scratch.path(), "1", 60_000), worker(scratch.path(), "2", 60_000));
    assert!(one.take(A).unwrap() && one.take(B).unwrap());
    assert!(!two.take(A).unwrap());
    two.release(A);
    assert_eq!(two.all().unwrap().len(), 2, "it releases its own only");
    one.release(A);
    assert!(two.take(A).unwrap());
    let all = two.all().unwrap();
    assert_eq!(all.iter().map(|claim| claim.cell.as_str()).collect::<Vec<_>>(), [A, B]);
    assert_eq!(all[1].holder.as_ref().unwrap().token, "1");
    assert!(all.iter().all(|claim| !claim.is_abandoned));
    drop(one);
    assert_eq!(two.all().unwrap().len(), 1);
}

#[test]
fn silent_claims_are_taken_over_after_the_timeout() {
    let scratch = tempdir().unwrap();
    let mut claims = worker(scratch.path(), "1", 60_000);
    leave(scratch.path(), A, Duration::from_secs(50));
    leave(scratch.path(), B, Duration::from_secs(70));
    assert!(!claims.take(A).unwrap());
    assert!(claims.is_doubtful(&claims.all().unwrap()[0]));
    assert!(claims.take(B).unwrap());
    assert!(!claims.all().unwrap()[1].is_abandoned && claims.is_own(B));
    // One whose worker was killed before it had written who it is.
    fs::write(scratch.path().join("claims").join(A), "").unwrap();
    assert!(!claims.take(A).unwrap());
}

#[test]
fn claims_of_a_process_that_ended_on_this_machine_are_free_at_once() {
    let scratch = tempdir().unwrap();
    let mut claims = worker(scratch.path(), "1", 60_000);
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let started = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let started: u64 = started.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
    let mut of_child = serde_json::to_value(Holder::this(1)).unwrap();
    of_child["token"] = "child".into();
    of_child["pid"] = child.id().into();
    of_child["process"]["started"] = started.into();
    fs::write(scratch.path().join("claims").join(A), of_child.to_string()).unwrap();
    assert!(!claims.take(A).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(claims.all().unwrap()[0].is_abandoned);
    assert!(claims.take(A).unwrap());
}

#[test]
fn heartbeats_keep_a_claim() {
    let scratch = tempdir().unwrap();
    let (mut one, mut two) = (worker(scratch.path(), "1", 100), worker(scratch.path(), "2", 60_000));
    assert!(one.take(A).unwrap());
    let file = File::options().write(true).open(one.path(A)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let began = std::time::Instant::now();
    while two.all().unwrap()[0].is_abandoned {
        assert!(began.elapsed() < Duration::from_secs(60), "no heartbeat");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!two.take(A).unwrap());
    // A worker that was stopped for too long loses it, and does not take it back.
    leave(scratch.path(), A, Duration::from_secs(3600));
    assert!(two.take(A).unwrap());
    one.release(A);
    assert!(two.is_own(A));
}

#[test]
fn of_two_that_take_a_claim_over_one_gets_it() {
    let scratch = tempdir().unwrap();
    let (mut one, two) = (worker(scratch.path(), "1", 60_000), worker(scratch.path(), "2", 60_000));
    leave(scratch.path(), A, Duration::from_secs(70));
    let seen = two.all().unwrap().remove(0);
    assert!(one.take(A).unwrap());
    assert!(!two.displace(&seen) && one.is_own(A), "what it saw is no more");
    assert_eq!(fs::read_dir(scratch.path().join("claims")).unwrap().count(), 2, "the claim and the clock");
}

#[test]
fn failures_are_known_to_the_workers_of_a_job() {
    let scratch = tempdir().unwrap();
    let of = |array: Option<&str>| {
        let own = Holder { array: array.map(str::to_owned), ..Holder::this(1) };
        Claims::open(scratch.path(), own, CLAIM_TIMEOUT).unwrap()
    };
    let one = of(Some("7"));
    let before = one.server_time();
    assert!(!one.has_failed_since(A, None));
    one.note_failed(A);
    assert!(of(Some("7")).has_failed_since(A, None) && !of(Some("8")).has_failed_since(A, None));
    assert!(of(None).has_failed_since(A, before) && one.all().unwrap().is_empty());
}
