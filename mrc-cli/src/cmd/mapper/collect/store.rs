//! The collector's memory on disk: events and the faults that are open, in SQLite. Bounded; a disk that is full or a file
//! that breaks costs the history, not the map.

use std::path::Path;

use anyhow::Context as _;
use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::Value;

/// Events that are kept.
pub const MAX_EVENTS: i64 = 100_000;
/// Version of the tables.
const VERSION: i64 = 1;

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
}

impl Store {
    /// Opens or makes the file.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let open = || -> rusqlite::Result<Connection> {
            let db = Connection::open(path)?;
            db.pragma_update(None, "journal_mode", "WAL")?;
            db.pragma_update(None, "synchronous", "NORMAL")?;
            db.execute_batch(
                "CREATE TABLE IF NOT EXISTS event (number INTEGER PRIMARY KEY AUTOINCREMENT, unix_ms INTEGER NOT NULL,
                     component TEXT NOT NULL, event TEXT NOT NULL, loss REAL NOT NULL, evidence TEXT NOT NULL);
                 CREATE INDEX IF NOT EXISTS of_component ON event (component, number);",
            )?;
            Ok(db)
        };
        let db = open().with_context(|| format!("cannot use the database {}", path.display()))?;
        let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        anyhow::ensure!(
            version == 0 || version == VERSION,
            "{} was written by another version of mrc (tables {version}, not {VERSION}): name another file",
            path.display()
        );
        db.pragma_update(None, "user_version", VERSION)?;
        Ok(Self { db, broken: false })
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

    /// Events after a number, of one component or of all; oldest first, at most 1000.
    pub fn events(&self, after: i64, component: Option<&str>) -> anyhow::Result<Vec<Event>> {
        let sql = "SELECT number, unix_ms, component, event, loss, evidence FROM event
                   WHERE number > ?1 AND (?2 IS NULL OR component = ?2) ORDER BY number LIMIT 1000";
        let mut statement = self.db.prepare(sql)?;
        let rows = statement.query_map(params![after, component], |row| {
            let evidence: String = row.get(5)?;
            Ok(Event {
                number: row.get(0)?,
                unix_ms: row.get(1)?,
                component: row.get(2)?,
                event: row.get(3)?,
                loss: row.get(4)?,
                evidence: serde_json::from_str(&evidence).unwrap_or(Value::Null),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("mrc-store-{}-{name}.db", std::process::id()));
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
        path
    }

    #[test]
    fn events_survive_and_open_faults_are_known() {
        let path = file("events");
        let mut store = Store::open(&path).unwrap();
        let evidence = serde_json::json!([1, 2]);
        for (at, component, event) in
            [(1, "p0-hA", "faulty"), (2, "p1", "faulty"), (3, "p0-hA", "healthy"), (4, "hB", "agent")]
        {
            store.add(at, component, event, 0.5, &evidence);
        }
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.open_faults().unwrap(), ["p1"]);
        let all = store.events(0, None).unwrap();
        assert_eq!((all.len(), all[0].evidence.clone()), (4, evidence));
        let of: Vec<i64> = store.events(1, Some("p0-hA")).unwrap().iter().map(|event| event.unix_ms).collect();
        assert_eq!(of, [3]);
        drop(store);
        std::fs::write(file("broken"), "this is no database, however long it may be, and it never will be one")
            .unwrap();
        assert!(Store::open(&file("none/such/folder")).is_err());
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn other_tables_are_refused() {
        let path = file("version");
        drop(Store::open(&path).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 9).unwrap();
        assert!(Store::open(&path).err().unwrap().to_string().contains("another version"));
        let _ = std::fs::remove_file(path);
    }
}
