//! The collector's memory on disk: events and the faults that are open, in SQLite. Bounded; a disk that is full or a file
//! that breaks costs the history, not the map.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use mrc_mapper::Fabric;
use mrc_mapper::topology::{Component, Direction};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, ffi, params};
use serde::Serialize;
use serde_json::Value;

use crate::usage::usage;

/// Events that are kept.
pub const MAX_EVENTS: i64 = 100_000;
/// Version of the tables.
const VERSION: i64 = 1;
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS event (number INTEGER PRIMARY KEY AUTOINCREMENT, unix_ms INTEGER NOT NULL,
        component TEXT NOT NULL, event TEXT NOT NULL, loss REAL NOT NULL, evidence TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS of_component ON event (component, number);
    CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);";
/// Rows of a history at once.
const HISTORY: i64 = 20_000;
/// Events of one component.
const OF_COMPONENT: i64 = 200;

/// An event without its evidence: number, milliseconds since 1970, component, `faulty` or `healthy`, share of packets lost.
pub type Row = (i64, i64, String, String, f64);

/// Something that happened to a component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Its number.
    pub number: i64,
    /// Milliseconds since 1970.
    pub unix_ms: i64,
    /// Component.
    pub component: String,
    /// `faulty`, `healthy`, or what an agent did wrong.
    pub event: String,
    /// Share of packets lost.
    pub loss: f64,
    /// Evidence: the paths behind it.
    pub evidence: Value,
}

/// The database.
pub struct Store {
    db: Connection,
    broken: bool,
    /// Held by the one collector that writes.
    _lock: Option<File>,
}

impl Store {
    /// Opens or makes the file of a collector of `fabric`.
    pub fn open(path: &Path, fabric: Fabric) -> anyhow::Result<Self> {
        let open = || -> rusqlite::Result<Connection> {
            let db = Connection::open(path)?;
            check_length(&db, path)?;
            db.pragma_update(None, "journal_mode", "WAL")?;
            db.pragma_update(None, "synchronous", "NORMAL")?;
            db.execute_batch(TABLES)?;
            Ok(db)
        };
        let begin = || -> anyhow::Result<Self> {
            let store = Self { db: open()?, broken: false, _lock: Some(sole_writer(path)?) };
            store.check_version(path)?;
            store.db.pragma_update(None, "user_version", VERSION)?;
            let text = serde_json::to_string(&fabric)?;
            let was = store.about_fabric()?;
            if let Some(was) = was.filter(|was| *was != text) {
                let path = path.display();
                return Err(usage(anyhow!("{path} holds the history of another fabric, {was}: name another file")));
            }
            store.db.execute("INSERT OR IGNORE INTO about (name, value) VALUES ('fabric', ?1)", [text])?;
            // A page that is damaged shows here, and not when the map goes on.
            store.open_faults()?;
            // Tables and fabric are in the file itself, for whoever copies it without its log. Where this fails, the log has them.
            let _ = store.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            Ok(store)
        };
        begin().map_err(|error| match error.downcast_ref::<rusqlite::Error>() {
            None => error,
            Some(cause) => {
                let code = cause.sqlite_error_code();
                let is_damaged = code == Some(ErrorCode::DatabaseCorrupt);
                let cure = if is_damaged { "; move it away: only its history is lost" } else { "" };
                let named = format!("cannot use the database {}{cure}", path.display());
                let error = error.context(named);
                if code == Some(ErrorCode::NotADatabase) { usage(error) } else { error }
            }
        })
    }

    /// Opens a file for reading, and says of which fabric it is.
    pub fn read(path: &Path) -> anyhow::Result<(Self, Fabric)> {
        Self::open_to_read(path).map_err(usage)
    }

    fn open_to_read(path: &Path) -> anyhow::Result<(Self, Fabric)> {
        let db = read_only(path).with_context(|| format!("cannot read the database {}", path.display()))?;
        let store = Self { db, broken: false, _lock: None };
        let read = || -> anyhow::Result<Fabric> {
            store.check_version(path)?;
            let text = store.about_fabric()?.context("it does not name its fabric")?;
            Ok(serde_json::from_str(&text)?)
        };
        let fabric = read().with_context(|| format!("{} is no history of `mrc mapper collect`", path.display()))?;
        fabric.check()?;
        Ok((store, fabric))
    }

    fn check_version(&self, path: &Path) -> anyhow::Result<()> {
        let version: i64 = self.db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        anyhow::ensure!(
            version == 0 || version == VERSION,
            "{} was written by another version of mrc (tables {version}, not {VERSION}): name another file",
            path.display()
        );
        Ok(())
    }

    fn about_fabric(&self) -> rusqlite::Result<Option<String>> {
        self.db.query_row("SELECT value FROM about WHERE name = 'fabric'", [], |row| row.get(0)).optional()
    }

    /// Adds an event. What cannot be written is said once.
    pub fn add(&mut self, unix_ms: u64, component: &str, event: &str, loss: f64, evidence: &Value) {
        let insert = "INSERT INTO event (unix_ms, component, event, loss, evidence) VALUES (?1, ?2, ?3, ?4, ?5)";
        let result = self
            .db
            .execute(insert, params![unix_ms as i64, component, event, loss, evidence.to_string()])
            .and_then(|_| {
                let oldest = self.db.last_insert_rowid() - MAX_EVENTS;
                self.db.execute("DELETE FROM event WHERE number <= ?1", [oldest])
            });
        match result {
            Ok(_) => self.broken = false,
            Err(error) if !self.broken => {
                log::error!("the history has a gap: {error}; the map goes on");
                self.broken = true;
            }
            Err(_) => {}
        }
    }

    /// Number of the newest event; 0: there is none.
    pub fn last_event(&self) -> i64 {
        self.db.query_row("SELECT coalesce(max(number), 0) FROM event", [], |row| row.get(0)).unwrap_or(0)
    }

    /// Events after a number, oldest first, at most 1000.
    pub fn events(&self, after: i64) -> anyhow::Result<Vec<Event>> {
        let mut statement = self.db.prepare(&format!("{EVENTS} WHERE number > ?1 ORDER BY number LIMIT 1000"))?;
        let rows = statement.query_map([after], event)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The newest events of a component, in whatever direction, oldest first.
    pub fn of(&self, component: Component) -> anyhow::Result<Vec<Event>> {
        let names = [Direction::Both, Direction::Up, Direction::Down]
            .map(|direction| component.with_direction(direction).to_string());
        let sql = format!("{EVENTS} WHERE component IN (?1, ?2, ?3) ORDER BY number DESC LIMIT {OF_COMPONENT}");
        let mut statement = self.db.prepare(&sql)?;
        let rows = statement.query_map(names, event)?;
        let mut events: Vec<Event> = rows.collect::<Result<_, _>>()?;
        events.reverse();
        Ok(events)
    }

    /// Where faults began and ended after a number, oldest first: the newest [`HISTORY`] rows.
    pub fn history(&self, after: i64) -> anyhow::Result<Vec<Row>> {
        let sql = format!(
            "SELECT number, unix_ms, component, event, loss FROM event
             WHERE number > ?1 AND event IN ('faulty', 'healthy') ORDER BY number DESC LIMIT {HISTORY}"
        );
        let mut statement = self.db.prepare(&sql)?;
        let rows = statement
            .query_map([after], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))?;
        let mut rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        rows.reverse();
        Ok(rows)
    }

    /// Components whose last event says `faulty`.
    pub fn open_faults(&self) -> anyhow::Result<Vec<String>> {
        let sql = "SELECT component FROM event AS last WHERE event = 'faulty' AND number =
                   (SELECT max(number) FROM event WHERE component = last.component AND event IN ('faulty', 'healthy'))
                   ORDER BY component";
        let mut statement = self.db.prepare(sql)?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

const EVENTS: &str = "SELECT number, unix_ms, component, event, loss, evidence FROM event";

fn event(row: &rusqlite::Row<'_>) -> rusqlite::Result<Event> {
    let evidence: String = row.get(5)?;
    Ok(Event {
        number: row.get(0)?,
        unix_ms: row.get(1)?,
        component: row.get(2)?,
        event: row.get(3)?,
        loss: row.get(4)?,
        evidence: serde_json::from_str(&evidence).unwrap_or(Value::Null),
    })
}

/// The file beside a database that holds what was written last.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Refuses a database that was cut within a page. If its first page had no table yet, SQLite takes it for an empty one. Where its log
/// is there, SQLite restores the pages from that.
fn check_length(db: &Connection, path: &Path) -> rusqlite::Result<()> {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
    // Before SQLite makes an empty one.
    let has_log = length(&log_of(path)) > 0;
    db.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    let (length, page): (u64, i64) = (length(path), db.pragma_query_value(None, "page_size", |row| row.get(0))?);
    if has_log || length.is_multiple_of(page.cast_unsigned()) {
        return Ok(());
    }
    let why = format!("its end is missing: {length} bytes are no whole number of pages of {page}");
    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(why)))
}

/// Opens a database for reading. SQLite shares it with its writer through a file beside it. Where none can be made, as on a medium
/// that cannot be written, and no writer left anything behind, the file is all there is.
fn read_only(path: &Path) -> rusqlite::Result<Connection> {
    let open = |name: &OsStr, flags| {
        let db = Connection::open_with_flags(name, flags)?;
        check_length(&db, path)?;
        Ok(db)
    };
    match open(path.as_os_str(), OpenFlags::SQLITE_OPEN_READ_ONLY) {
        Err(_) if path.exists() && !log_of(path).exists() => {
            let mut uri = OsString::from("file:");
            for byte in path.as_os_str().as_bytes() {
                match byte {
                    b'%' | b'?' | b'#' => uri.push(format!("%{byte:02x}")),
                    _ => uri.push(OsStr::from_bytes(&[*byte])),
                }
            }
            uri.push("?immutable=1");
            open(&uri, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
        }
        opened => opened,
    }
}

/// A lock on a file beside the database, for as long as the collector lives: SQLite locks for single statements only, and would lose its
/// locks if the database itself were opened here.
fn sole_writer(path: &Path) -> anyhow::Result<File> {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-lock");
    let cannot = || format!("cannot use {}", Path::new(&beside).display());
    let file = File::options().create(true).write(true).truncate(false).open(&beside).with_context(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            anyhow::bail!("another collector writes to {}: name another file", path.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FABRIC: Fabric = Fabric { planes: 2, leaves: 2, spines: 4, hosts: 4 };

    #[test]
    fn events_survive_and_open_faults_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let mut store = Store::open(&path, FABRIC).unwrap();
        assert_eq!(store.last_event(), 0);
        let evidence = serde_json::json!([1, 2]);
        for (at, component, event) in [
            (1, "p0-hA:up", "faulty"),
            (2, "p1", "faulty"),
            (3, "p0-hA:up", "healthy"),
            (4, "hB", "agent"),
            (5, "p0-hA", "faulty"),
            (6, "p0-hA", "healthy"),
        ] {
            store.add(at, component, event, 0.5, &evidence);
        }
        drop(store);
        let store = Store::open(&path, FABRIC).unwrap();
        assert_eq!((store.open_faults().unwrap(), store.last_event()), (vec!["p1".to_owned()], 6));
        let all = store.events(0).unwrap();
        assert_eq!((all.len(), all[0].evidence.clone()), (6, evidence));
        // Of a link in any direction.
        let times = |name: &str| -> Vec<i64> {
            store.of(name.parse().unwrap()).unwrap().iter().map(|event| event.unix_ms).collect()
        };
        assert_eq!((times("p0-hA:down"), times("p1")), (vec![1, 3, 5, 6], vec![2]));
        let numbers = |after| -> Vec<i64> { store.history(after).unwrap().iter().map(|row| row.0).collect() };
        assert_eq!((numbers(0), numbers(3)), (vec![1, 2, 3, 5, 6], vec![5, 6]));
        let second = Store::open(&path, FABRIC).err().unwrap().to_string();
        assert!(second.contains("another collector"), "{second}");
        let (copy, fabric) = Store::read(&path).unwrap();
        assert_eq!((copy.last_event(), fabric), (6, FABRIC));
        drop((store, copy));
        // A program that another test starts meanwhile holds the lock until it has begun.
        let other = || Store::open(&path, Fabric { hosts: 5, ..FABRIC }).err().unwrap().to_string();
        let waits = |why: &String| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            why.contains("another collector")
        };
        let other = std::iter::repeat_with(other).take(500).find(|why| !waits(why)).unwrap();
        assert!(other.contains("another fabric"), "{other}");
        let broken = folder.path().join("broken");
        std::fs::write(&broken, "this is no database, however long it may be, and it never will be one").unwrap();
        assert!(Store::open(&broken, FABRIC).is_err() && Store::read(&broken).is_err());
        assert!(Store::open(&folder.path().join("none/such/folder"), FABRIC).is_err());
    }

    /// Nobody knew which file it was, nor what to do.
    #[test]
    fn a_damaged_file_is_named_with_its_cure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        let mut store = Store::open(&path, FABRIC).unwrap();
        (0..2000).for_each(|at| store.add(at, "p0", "faulty", 1.0, &Value::String("x".repeat(500))));
        drop(store);
        let whole = std::fs::read(&path).unwrap();
        for damage in 2..12 {
            let mut bytes = whole.clone();
            bytes[damage * 4096..(damage + 1) * 4096].fill(0xa5);
            std::fs::write(&path, bytes).unwrap();
            if let Err(error) = Store::open(&path, FABRIC) {
                let says = format!("{error:#}");
                assert!(says.contains(&path.display().to_string()) && says.contains("move it away"), "{says}");
            }
        }
        std::fs::write(&path, &whole[..4096 * 3]).unwrap();
        let says = format!("{:#}", Store::open(&path, FABRIC).err().unwrap());
        assert!(says.contains(&path.display().to_string()) && says.contains("move it away"), "{says}");
    }

    /// It had one page without tables, and nobody could tell what it was.
    #[test]
    fn a_file_that_is_copied_without_its_log_names_its_fabric() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("whole"), folder.path().join("copy"));
        let _running = Store::open(&path, FABRIC).unwrap();
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(Store::read(&copy).map(|(store, fabric)| (store.last_event(), fabric)).unwrap(), (0, FABRIC));
    }

    /// What a collector that was killed as it began leaves has one page without tables, and the rest in its log. Cut, it was taken for
    /// an empty one.
    #[test]
    fn a_file_that_was_cut_within_its_first_page_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, cut) = (folder.path().join("whole"), folder.path().join("cut"));
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.execute_batch(TABLES).unwrap();
        let mut store = Store { db, broken: false, _lock: None };
        store.add(1, "p0", "faulty", 1.0, &Value::Null);
        let (first, log) = (std::fs::read(&path).unwrap(), std::fs::read(log_of(&path)).unwrap());
        assert_eq!((first.len(), log.is_empty()), (4096, false));
        for length in [100, 3000] {
            std::fs::write(&cut, &first[..length]).unwrap();
            for error in [Store::open(&cut, FABRIC).err().unwrap(), Store::read(&cut).err().unwrap()] {
                let says = crate::chain(&error);
                assert!(says.contains(cut.to_str().unwrap()) && says.contains("malformed"), "{says}");
            }
            assert_eq!(std::fs::read(&cut).unwrap(), &first[..length], "nothing is written");
        }
        // With its log nothing is lost.
        std::fs::write(log_of(&cut), log).unwrap();
        assert_eq!(Store::open(&cut, FABRIC).unwrap().open_faults().unwrap(), ["p0"]);
    }

    #[test]
    fn a_history_that_nobody_may_write_can_be_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("read#only?");
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("100%.db");
        let mut store = Store::open(&path, FABRIC).unwrap();
        store.add(1, "p0", "faulty", 1.0, &Value::Null);
        drop(store);
        // Root may write everywhere but here.
        let mount = |args: &[&str]| std::process::Command::new("mount").args(args).arg(&folder).status();
        let mounted = nix::unistd::geteuid().is_root()
            && mount(&["--bind", folder.to_str().unwrap()]).is_ok_and(|status| status.success())
            && mount(&["-o", "remount,bind,ro"]).is_ok_and(|status| status.success());
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).ok();
        let read = Store::read(&path).map(|(store, fabric)| (store.last_event(), fabric));
        if mounted {
            assert!(std::process::Command::new("umount").arg(&folder).status().unwrap().success());
        }
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(read.unwrap(), (1, FABRIC));
    }

    #[test]
    fn other_tables_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("version");
        drop(Store::open(&path, FABRIC).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 9).unwrap();
        assert!(Store::open(&path, FABRIC).err().unwrap().to_string().contains("another version"));
    }

    #[test]
    fn a_full_disk_costs_the_history_and_not_the_map() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full");
        let mut store = Store::open(&path, FABRIC).unwrap();
        store.add(1, "p0", "faulty", 1.0, &Value::Null);
        let pages: i64 = store.db.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        // As on a full disk, SQLite refuses to grow the file.
        store.db.pragma_update(None, "max_page_count", pages).unwrap();
        let large = Value::String("x".repeat(100_000));
        store.add(2, "p1", "faulty", 1.0, &large);
        assert!(store.broken);
        assert_eq!((store.last_event(), store.open_faults().unwrap()), (1, vec!["p0".to_owned()]));
        store.db.pragma_update(None, "max_page_count", 1 << 20).unwrap();
        store.add(3, "p0", "healthy", 0.0, &large);
        assert!(!store.broken && store.open_faults().unwrap().is_empty());
    }
}
