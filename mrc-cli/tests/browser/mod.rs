//! A headless Chromium under the control of a test, over its DevTools protocol: keys as a person presses them, screenshots,
//! and a list of everything that the page asks for.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// A page of a browser that is closed at the end.
pub(crate) struct Browser {
    child: Child,
    stream: BufReader<TcpStream>,
    number: u64,
    /// Addresses that were asked for.
    pub(crate) requests: Vec<String>,
    /// What the page wrote on its console, and uncaught errors.
    pub(crate) console: Vec<String>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // `timeout` hands the signal on to the browser and all its processes; killed itself, it would leave them behind.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts one with an empty page of 1280 by 900; `None` and a note if there is no Chromium.
    pub(crate) fn start(test: &str, folder: &Path) -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let Some(name) = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok()) else {
            // Past the harness's capture.
            let _ = writeln!(std::io::stderr(), "SKIP {test}: no Chromium");
            return None;
        };
        let profile = folder.join("profile");
        let _ = std::fs::remove_dir_all(&profile);
        let child = Command::new("timeout")
            .args(["-k", "5", "150", name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--window-size=1280,900", "--no-first-run", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("timeout exists");
        let give_up = Instant::now() + PATIENCE;
        let target = loop {
            assert!(Instant::now() < give_up, "the browser does not start");
            std::thread::sleep(Duration::from_millis(50));
            if let Some(target) = page_of(&profile) {
                break target;
            }
        };
        let address = target.strip_prefix("ws://").expect("a WebSocket");
        let (host, path) = address.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(host).expect("the browser listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        write!(
            stream,
            "GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        .expect("the browser listens");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(stream.read_line(&mut line).expect("an answer") > 0, "the browser closed the connection");
        }
        let mut browser = Self { child, stream, number: 0, requests: Vec::new(), console: Vec::new() };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// A call of the protocol; its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let number = self.number;
        self.send(&json!({ "id": number, "method": method, "params": params }).to_string());
        loop {
            let message = self.receive();
            if message["id"] == number {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            let params = &message["params"];
            match message["method"].as_str() {
                Some("Network.requestWillBeSent") => {
                    self.requests.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
                }
                Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => {
                    self.console.push(params.to_string());
                }
                _ => {}
            }
        }
    }

    /// Opens a page.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// The value of an expression of JavaScript in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let give_up = Instant::now() + PATIENCE;
        while self.eval(expression) != Value::Bool(true) {
            if Instant::now() >= give_up {
                let text = self.eval("document.body.innerText");
                panic!("never true: {expression}\nconsole: {:?}\n{text}", self.console);
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Presses and releases a key, such as `ArrowLeft` or `f`.
    pub(crate) fn press(&mut self, key: &str) {
        let mut down = json!({ "type": "keyDown", "key": key, "code": key });
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "PageUp" => 33,
            "PageDown" => 34,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        if code != 0 {
            down["windowsVirtualKeyCode"] = code.into();
        }
        if key.len() == 1 || key == "Enter" {
            down["text"] = (if key == "Enter" { "\r" } else { key }).into();
        }
        let mut up = down.clone();
        up["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", down);
        self.call("Input.dispatchKeyEvent", up);
    }

    /// Has the page believe that the user wants `dark` or `light`.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A picture of the page as PNG.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let data = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        base64(data["data"].as_str().expect("a picture"))
    }

    fn send(&mut self, text: &str) {
        let mut frame = vec![0x81];
        match text.len() {
            len @ 0..126 => frame.push(0x80 | len as u8),
            len @ 126..0x1_0000 => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        // The mask is zero: nothing on this machine needs another one.
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        self.stream.get_mut().write_all(&frame).expect("the browser listens");
    }

    fn receive(&mut self) -> Value {
        let mut text = Vec::new();
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).expect("the browser answers");
            let mut long = [0; 8];
            let len = match head[1] & 0x7F {
                126 => {
                    self.stream.read_exact(&mut long[6..]).expect("a length");
                    u64::from_be_bytes(long)
                }
                127 => {
                    self.stream.read_exact(&mut long).expect("a length");
                    u64::from_be_bytes(long)
                }
                len => u64::from(len),
            };
            let begin = text.len();
            text.resize(begin + usize::try_from(len).expect("it fits"), 0);
            self.stream.read_exact(&mut text[begin..]).expect("a frame");
            match (head[0] & 0x0F, head[0] & 0x80) {
                (8, _) => panic!("the browser closed the connection"),
                (9 | 10, _) => text.truncate(begin),
                (_, 0) => {}
                _ => return serde_json::from_slice(&text).expect("JSON"),
            }
        }
    }
}

/// The address of the page's debugger, once the browser has one.
fn page_of(profile: &Path) -> Option<String> {
    let text = std::fs::read_to_string(profile.join("DevToolsActivePort")).ok()?;
    let port: u16 = text.lines().next()?.parse().ok()?;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET /json/list HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let (mut reader, mut line, mut length) = (BufReader::new(stream), String::new(), 0);
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let targets: Value = serde_json::from_slice(&body).ok()?;
    let page = targets.as_array()?.iter().find(|target| target["type"] == "page")?;
    Some(page["webSocketDebuggerUrl"].as_str()?.to_owned())
}

fn base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let group = four.iter().fold(0, |group, byte| group << 6 | value(*byte)) << (6 * (4 - four.len()));
        bytes.extend_from_slice(&group.to_be_bytes()[1..four.len()]);
    }
    bytes
}
