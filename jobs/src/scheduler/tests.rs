use std::sync::atomic::{AtomicUsize, Ordering};

use entity::database::DatabaseSettings;
use tempfile::TempDir;
use tokio::sync::Notify;

use super::*;

/// Longer than anything here takes, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(60);

type Ending = Pin<Box<dyn Future<Output = Result<Option<String>, StoreError>> + Send>>;

async fn database(folder: &TempDir) -> Database {
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("jobs.db").display());
    let db = Database::connect(&DatabaseSettings { url, pool: 2, acquire_timeout: PATIENCE }).await.unwrap();
    db.migrate().await.unwrap();
    db
}

/// A job whose n-th run does what `run` says, and how many runs there were.
async fn job(folder: &TempDir, run: impl Fn(usize) -> Ending + Send + Sync + 'static) -> (GuardedJob, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let run: Run = Arc::new(move |_| run(counted.fetch_add(1, Ordering::SeqCst)));
    let (name, db, stop) = (RELEASE, database(folder).await, CancellationToken::new());
    (GuardedJob { name, run, db, worker: "w".into(), running: Arc::default(), hangs_after: PATIENCE, stop }, runs)
}

/// The next run by schedule, long after the last one.
async fn tick(job: &GuardedJob) {
    if let Ok(mut last_began) = job.running.try_lock() {
        *last_began = None;
    }
    tokio::time::timeout(PATIENCE, job.tick()).await.expect("a run ends, or is left behind");
}

async fn has_succeeded(job: &GuardedJob) -> bool {
    !job_run::all(&job.db).await.unwrap().is_empty()
}

#[tokio::test]
async fn a_panic_or_an_error_costs_one_run() {
    let folder = TempDir::new().unwrap();
    let (job, runs) = job(&folder, |number| match number {
        0 => panic!("before there is a future"),
        1 => Box::pin(async { panic!("while it runs") }),
        2 => Box::pin(async { Err(StoreError::timed_out()) }),
        _ => Box::pin(async { Ok(None) }),
    })
    .await;
    for _ in 0..3 {
        tick(&job).await;
        assert!(!has_succeeded(&job).await, "a run that failed counts as a success");
    }
    tick(&job).await;
    assert!(has_succeeded(&job).await);
    assert_eq!(runs.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_run_that_hangs_is_left_behind() {
    let folder = TempDir::new().unwrap();
    let (mut job, runs) = job(&folder, |number| match number {
        0 => Box::pin(std::future::pending()),
        _ => Box::pin(async { Ok(None) }),
    })
    .await;
    job.hangs_after = Duration::from_millis(50);
    tick(&job).await;
    job.hangs_after = PATIENCE;
    tick(&job).await;
    assert!(has_succeeded(&job).await);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_job_never_overlaps_itself_and_a_burst_is_one_run() {
    let folder = TempDir::new().unwrap();
    let go_on = Arc::new(Notify::new());
    let waits = Arc::clone(&go_on);
    let (job, runs) = job(&folder, move |_| {
        let waits = Arc::clone(&waits);
        Box::pin(async move {
            waits.notified().await;
            Ok(None)
        })
    })
    .await;
    let first = tokio::spawn({
        let job = job.clone();
        async move { job.tick().await }
    });
    while runs.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        job.tick().await;
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1, "it ran while it was running");
    go_on.notify_one();
    first.await.unwrap();
    // The library makes good for what it missed, all at once.
    *job.running.lock().await = Some(BootInstant::now());
    for _ in 0..5 {
        job.tick().await;
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1, "a burst ran");
}

/// The library stops every job when one panics in its synchronous part; ours does not get that far.
#[tokio::test]
async fn a_job_that_always_panics_stops_neither_itself_nor_the_other() {
    let folder = TempDir::new().unwrap();
    let (panics, panicked) = job(&folder, |_| panic!("always")).await;
    let (works, worked) = job(&folder, |_| Box::pin(async { Ok(None) })).await;
    let every_second = || "* * * * * *".to_owned();
    let scheduler = Scheduler::start(vec![(every_second(), panics), (every_second(), works)]).await.unwrap();
    tokio::time::timeout(PATIENCE, async {
        while panicked.load(Ordering::SeqCst) < 2 || worked.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("both are run again and again");
    scheduler.stop().await;
}
