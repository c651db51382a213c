// The page of `mrc mapper web`: draws the fabric, follows the collector's events, and goes back in its history.
// Text from the collector is only ever set as text, never as HTML.
'use strict';

const MOST_DRAWN = 6000; // links in all planes together; a larger fabric is shown plane by plane
const EVENTS_LISTED = 60;
const TICKS = 400;
const DOWN_ABOVE = 0.99;

const $ = (id) => document.getElementById(id);
const NS = 'http://www.w3.org/2000/svg';
const app = {
  fabric: null, live: null, history: [], past: null, chosen: null, parts: new Map(), rows: [], answers: false, asked: 0,
};

// ---- names, as the mapper writes them ----

const letter = (index) => String.fromCharCode(97 + index % 26) + (index < 26 ? '' : Math.floor(index / 26));
const hostName = (host) => 'h' + letter(host).toUpperCase();
const names = {
  t0: (plane, leaf) => `p${plane}-t0${letter(leaf)}`,
  t1: (plane, spine) => `p${plane}-t1${letter(spine)}`,
  uplink: (plane, leaf, spine) => `p${plane}-t0${letter(leaf)}-t1${letter(spine)}`,
  hostLink: (plane, host) => `p${plane}-${hostName(host)}`,
};
const withoutDirection = (name) => name.replace(/:(up|down)$/, '').replace(/\.port$/, '');

// ---- small helpers ----

function svg(name, attributes, parent) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

function html(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

const percent = (loss) => loss >= DOWN_ABOVE ? 'down' : `loses ${(100 * loss).toPrecision(2)} %`;
const plural = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
function clock(ms) {
  const date = new Date(ms);
  return `${date.toISOString().slice(0, 10)} ${date.toISOString().slice(11, 23)} UTC`;
}

async function ask(path) {
  const answer = await fetch(path, { cache: 'no-store' });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// ---- drawing ----

function positions(count, width, margin) {
  return Array.from({ length: count }, (_, at) => margin + (width - 2 * margin) * (at + 0.5) / count);
}

/** Hosts under their T0, so that host links do not cross. */
function hostsInOrder({ leaves, hosts }) {
  const order = [];
  for (let leaf = 0; leaf < leaves; leaf++) for (let host = leaf; host < hosts; host += leaves) order.push(host);
  return order;
}

function part(group, name, kind, draw) {
  const element = svg('g', { class: 'part', 'data-name': name, 'data-kind': kind, tabindex: '-1', role: 'button' }, group);
  draw(element);
  if (!app.parts.has(name)) app.parts.set(name, []);
  app.parts.get(name).push(element);
  return element;
}

function line(group, name, kind, [x1, y1], [x2, y2]) {
  return part(group, name, kind, (element) => {
    svg('line', { class: 'hit', x1, y1, x2, y2 }, element);
    svg('line', { class: 'link', x1, y1, x2, y2 }, element);
  });
}

function node(group, name, kind, shape, [x, y], size, label) {
  return part(group, name, kind, (element) => {
    if (shape === 'host') svg('circle', { class: 'node', cx: x, cy: y, r: size }, element);
    else svg('rect', { class: 'node', x: x - size * 1.5, y: y - size, width: size * 3, height: size * 2, rx: 2 }, element);
    if (label) svg('text', { x, y: shape === 'host' ? y + size + 10 : y + 3.5 }, element).textContent = label;
  });
}

function drawPlane(plane) {
  const { leaves, spines, hosts } = app.fabric;
  const widest = Math.max(leaves, spines, hosts);
  const width = Math.min(2400, Math.max(420, widest * 26));
  const fits = width / widest >= 22;
  const size = Math.max(2.5, Math.min(9, width / widest / 4));
  const box = html('div', undefined, 'plane');
  box.dataset.plane = plane;
  const head = html('h2');
  const name = html('button', `p${plane}`);
  name.type = 'button';
  name.dataset.name = `p${plane}`;
  name.addEventListener('click', () => choose(`p${plane}`));
  const note = html('span', '', 'soft');
  head.append(name, ' ', note);
  const drawing = svg('svg', { viewBox: `0 0 ${width} 236`, role: 'group', 'aria-label': `plane ${plane}` });
  const at1 = positions(spines, width, 10).map((x) => [x, 24]);
  const at0 = positions(leaves, width, 10).map((x) => [x, 122]);
  const order = hostsInOrder(app.fabric);
  const places = positions(hosts, width, 4);
  const atHost = new Map(order.map((host, at) => [host, [places[at], 206]]));
  const links = svg('g', {}, drawing);
  const nodes = svg('g', {}, drawing);
  svg('g', { class: 'notes' }, drawing);
  const rows = [[], [], [], [], []];
  for (let leaf = 0; leaf < leaves; leaf++) {
    for (let spine = 0; spine < spines; spine++) {
      rows[1].push(line(links, names.uplink(plane, leaf, spine), 'link', at0[leaf], at1[spine]));
    }
  }
  for (const host of order) {
    rows[3].push(line(links, names.hostLink(plane, host), 'host link', atHost.get(host), at0[host % leaves]));
  }
  for (let spine = 0; spine < spines; spine++) {
    rows[0].push(node(nodes, names.t1(plane, spine), 'T1', 'switch', at1[spine], size, fits ? 't1' + letter(spine) : ''));
  }
  for (let leaf = 0; leaf < leaves; leaf++) {
    rows[2].push(node(nodes, names.t0(plane, leaf), 'T0', 'switch', at0[leaf], size, fits ? 't0' + letter(leaf) : ''));
  }
  for (const host of order) {
    rows[4].push(node(nodes, hostName(host), 'host', 'host', atHost.get(host), size, fits ? hostName(host) : ''));
  }
  box.append(head, drawing);
  $('map').append(box);
  app.rows.push(rows.filter((row) => row.length > 0));
}

function draw() {
  const choice = $('planes').value;
  app.parts = new Map();
  app.rows = [];
  $('map').replaceChildren();
  for (let plane = 0; plane < app.fabric.planes; plane++) {
    if (choice === 'all' || Number(choice) === plane) drawPlane(plane);
  }
  const first = app.rows[0][0][0];
  if (first) first.setAttribute('tabindex', '0');
  paint();
}

function offerPlanes() {
  const { planes, leaves, spines, hosts } = app.fabric;
  const select = $('planes');
  select.replaceChildren();
  const option = (value, text) => {
    const element = html('option', text);
    element.value = value;
    select.append(element);
  };
  const links = planes * (leaves * spines + hosts);
  if (links <= MOST_DRAWN) option('all', 'all');
  for (let plane = 0; plane < planes; plane++) option(String(plane), `p${plane}`);
}

// ---- states ----

/** What is faulty at a time of the history: component to loss. */
function faultyAt(ms) {
  const faulty = new Map();
  for (const [, at, component, event, loss] of app.history) {
    if (at > ms) break;
    if (event === 'faulty') faulty.set(component, loss);
    else if (event === 'healthy') faulty.delete(component);
  }
  return faulty;
}

function shownFaults() {
  if (app.past !== null) return faultyAt(app.past);
  const faults = new Map(app.live.faulty.map(({ component, loss }) => [component, loss]));
  for (const name of app.live.open_before) if (!faults.has(name)) faults.set(name, faultyAt(Infinity).get(name) ?? 1);
  return faults;
}

function mark(name, loss) {
  const bare = withoutDirection(name);
  const direction = name.endsWith(':up') ? 'up' : name.endsWith(':down') ? 'down' : '';
  for (const element of app.parts.get(bare) ?? []) {
    const shape = element.querySelector('.link, .node');
    shape.classList.add(loss >= DOWN_ABOVE ? 'down' : 'lossy');
    element.setAttribute('aria-label', `${element.dataset.kind} ${name}, ${percent(loss)}`);
    if (shape.tagName !== 'line') continue;
    const ends = ['x1', 'y1', 'x2', 'y2'].map((key) => Number(shape.getAttribute(key)));
    const [x, y] = [(ends[0] + ends[2]) / 2, (ends[1] + ends[3]) / 2];
    const notes = element.ownerSVGElement.querySelector('.notes');
    if (direction) {
      const tip = direction === 'up' ? -9 : 9;
      svg('path', { class: 'arrow', d: `M${x - 6} ${y} L${x + 6} ${y} L${x} ${y + tip} Z` }, notes);
    }
    const text = svg('text', { class: 'note', x: x + 14, y: y - 8 }, notes);
    text.textContent = loss >= DOWN_ABOVE ? 'down' : `${(100 * loss).toPrecision(2)} %`;
  }
  const plane = document.querySelector(`.plane[data-plane="${bare.slice(1)}"]`);
  if (plane && /^p\d+$/.test(bare)) plane.classList.add('faulty');
}

function paint() {
  if (!app.live || !app.fabric) return;
  const faults = shownFaults();
  const silent = new Set(app.past === null && !app.live.recorded ? app.live.silent : []);
  for (const [name, elements] of app.parts) {
    for (const element of elements) {
      const shape = element.querySelector('.link, .node');
      shape.classList.remove('lossy', 'down', 'denied', 'silent');
      element.classList.toggle('chosen', app.chosen !== null && withoutDirection(app.chosen) === name);
      const quiet = element.dataset.kind === 'host' && silent.has(name);
      if (quiet) shape.classList.add('silent');
      element.setAttribute('aria-label', `${element.dataset.kind} ${name}, ${quiet ? 'no agent reports' : 'healthy'}`);
    }
  }
  for (const notes of document.querySelectorAll('.notes')) notes.replaceChildren();
  for (const plane of document.querySelectorAll('.plane')) plane.classList.remove('faulty');
  if (app.past === null) {
    for (const [host, planes] of Object.entries(app.live.denied ?? {})) {
      for (const plane of planes) {
        for (const element of app.parts.get(`p${plane}-${host}`) ?? []) element.querySelector('.link').classList.add('denied');
      }
    }
  }
  for (const [name, loss] of faults) mark(name, loss);
  for (const box of document.querySelectorAll('.plane')) {
    const prefix = `p${box.dataset.plane}`;
    const count = [...faults.keys()].filter((name) => name === prefix || name.startsWith(prefix + '-')).length;
    box.querySelector('.soft').textContent = count ? plural(count, 'fault') : 'healthy';
  }
  summarise(faults, silent);
  listFaults(faults);
  listEvents();
}

function summarise(faults, silent) {
  const summary = $('summary');
  const { live } = app;
  let text = faults.size ? `${plural(faults.size, 'component')} faulty` : 'no fault';
  if (app.past !== null) text += ` at ${clock(app.past)}`;
  else if (live.recorded) text += ' at the end of this recording';
  else if (!app.answers) text = 'the collector does not answer; shown is what it said last';
  else text += `, ${plural(app.fabric.hosts - silent.size, 'agent')} of ${plural(app.fabric.hosts, 'host')} report`;
  if (summary.textContent !== text) summary.textContent = text;
  summary.classList.toggle('bad', faults.size > 0 || (!app.answers && app.past === null && !live.recorded));
  $('when').textContent = app.past === null ? (live.recorded ? 'end' : 'now') : clock(app.past);
  $('live').setAttribute('aria-pressed', String(app.past === null));
}

function listFaults(faults) {
  const list = $('faults');
  const wanted = [...faults].sort(([a], [b]) => a < b ? -1 : 1).map(([name, loss]) => [name, `${name} ${percent(loss)}`]);
  const same = wanted.length === list.querySelectorAll('button').length
    && wanted.every(([, text], at) => list.children[at].textContent === text);
  if (same && (wanted.length || list.children.length)) return;
  // A list that changes under the focus gives it back.
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  list.replaceChildren();
  for (const [name, text] of wanted) {
    const item = html('li');
    const button = html('button', text);
    button.type = 'button';
    button.dataset.name = name;
    button.addEventListener('click', () => choose(name));
    item.append(button);
    list.append(item);
    if (name === focused) button.focus();
  }
  if (!wanted.length) list.append(html('li', 'none', 'soft'));
}

function listEvents() {
  const until = app.past ?? Infinity;
  const shown = app.history.filter(([, at]) => at <= until).slice(-EVENTS_LISTED).reverse();
  const rows = shown.map(([, at, component, event, loss]) =>
    html('li', `${clock(at)}  ${component} ${event === 'faulty' ? percent(loss) : event}`));
  $('events').replaceChildren(...(rows.length ? rows : [html('li', 'none', 'soft')]));
}

// ---- evidence ----

function route(path) {
  const kind = typeof path.route === 'string' ? path.route : Object.keys(path.route)[0];
  const about = typeof path.route === 'string' ? {} : path.route[kind];
  const t1 = (spine) => 't1' + letter(spine);
  const via = {
    t0: () => 'own T0 and back',
    t1: () => `${t1(about.spine)} and back`,
    triangle: () => `${t1(about.spine)}, t0${letter(about.leaf)}, ${t1(about.back)}`,
    pair: () => `to ${hostName(about.target)} over ${t1(about.spine)}, reply on p${about.reply_plane}`,
  }[kind];
  return `p${path.plane} ${via ? via() : kind}`;
}

function fillPaths(paths, caption) {
  $('rounds').textContent = caption;
  const row = ({ host, path, sent, lost, lost_full: full }) => {
    const element = html('tr');
    for (const text of [host, route(path), sent, lost, full ?? 0]) element.append(html('td', text));
    return element;
  };
  $('paths').replaceChildren(...paths.map(row));
  $('paths').closest('table').hidden = paths.length === 0;
}

async function choose(name) {
  app.chosen = name;
  $('detail').hidden = false;
  $('name').textContent = name;
  paint();
  await refresh();
}

async function refresh() {
  const [name, asked] = [app.chosen, ++app.asked];
  if (name === null) return;
  let all;
  try {
    all = await ask(`/api/why/${encodeURIComponent(name)}`);
  } catch (error) {
    $('state').textContent = error.message;
    fillPaths([], '');
    return;
  }
  // Another answer was asked for meanwhile.
  if (asked !== app.asked || name !== app.chosen) return;
  const loss = [...shownFaults()].find(([component]) => component === name || withoutDirection(component) === name);
  $('state').textContent = loss ? `${loss[0]} ${percent(loss[1])}` : 'healthy';
  const until = app.past ?? Infinity;
  const history = all.history.filter((event) => event.unix_ms <= until);
  const began = history.filter((event) => event.event === 'faulty').pop();
  if (app.past === null && !app.live.recorded) fillPaths(all.paths, 'paths through it in the last rounds, most losses first');
  else if (began) fillPaths(began.evidence ?? [], `paths through it when it was reported, ${clock(began.unix_ms)}`);
  else fillPaths([], '');
  const rows = history.slice(-50).reverse().map(({ unix_ms, event, component, loss }) =>
    html('li', `${clock(unix_ms)}  ${component} ${event === 'faulty' ? percent(loss) : event}`));
  $('history').replaceChildren(...(rows.length ? rows : [html('li', 'none', 'soft')]));
}

function close() {
  app.chosen = null;
  $('detail').hidden = true;
  paint();
}

// ---- time ----

const span = () => {
  const first = app.history.length ? app.history[0][1] : app.live.unix_ms;
  const end = app.live.recorded && app.history.length ? app.history[app.history.length - 1][1] : app.live.unix_ms;
  return [first - 1000, Math.max(end, first)];
};

function drawTicks() {
  const [from, to] = span();
  const ticks = app.history.slice(-TICKS).filter(([, , , event]) => event !== 'agent').map(([, at, , event]) => {
    const x = to > from ? 1000 * (at - from) / (to - from) : 1000;
    return svg('line', { class: event, x1: x, x2: x, y1: 0, y2: 8 });
  });
  $('ticks').replaceChildren(...ticks);
}

function goTo(ms) {
  const [from, to] = span();
  app.past = ms >= to ? null : Math.max(ms, from);
  setSlider();
  paint();
  refresh();
}

function setSlider() {
  const [from, to] = span();
  const value = app.past === null ? 1000 : 1000 * (app.past - from) / Math.max(1, to - from);
  $('slider').value = String(value);
  $('slider').setAttribute('aria-valuetext', app.past === null ? 'now' : clock(app.past));
}

/** To the event before or after the time that is shown. */
function step(direction) {
  const times = [...new Set(app.history.map(([, at]) => at))];
  const here = app.past ?? Infinity;
  const next = direction < 0 ? times.filter((at) => at < here).pop() : times.find((at) => at > here);
  if (next !== undefined) {
    app.past = next;
    setSlider();
    paint();
    refresh();
  } else goTo(direction < 0 ? -Infinity : Infinity);
}

// ---- keys ----

function focusPart(element) {
  for (const other of document.querySelectorAll('.part[tabindex="0"]')) other.setAttribute('tabindex', '-1');
  element.setAttribute('tabindex', '0');
  element.focus();
}

function place(element) {
  for (const [plane, rows] of app.rows.entries()) {
    for (const [row, parts] of rows.entries()) {
      const at = parts.indexOf(element);
      if (at >= 0) return { plane, row, at };
    }
  }
  return null;
}

function moveInMap(event) {
  const element = event.target.closest('.part');
  const here = element && place(element);
  if (!here) return;
  const rows = app.rows[here.plane];
  const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
  const inRow = (plane, row) => {
    const parts = app.rows[plane][row];
    return parts[Math.round(here.at / Math.max(1, rows[here.row].length - 1) * (parts.length - 1))];
  };
  const target = {
    ArrowLeft: () => rows[here.row][clamp(here.at - 1, rows[here.row].length)],
    ArrowRight: () => rows[here.row][clamp(here.at + 1, rows[here.row].length)],
    ArrowUp: () => inRow(here.plane, clamp(here.row - 1, rows.length)),
    ArrowDown: () => inRow(here.plane, clamp(here.row + 1, rows.length)),
    Home: () => rows[here.row][0],
    End: () => rows[here.row][rows[here.row].length - 1],
    PageUp: () => inRow(clamp(here.plane - 1, app.rows.length), here.row),
    PageDown: () => inRow(clamp(here.plane + 1, app.rows.length), here.row),
  }[event.key];
  if (target) {
    event.preventDefault();
    focusPart(target());
  } else if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    choose(element.dataset.name);
  }
}

function nextFault() {
  const buttons = [...$('faults').querySelectorAll('button')];
  if (!buttons.length) return;
  const at = buttons.findIndex((button) => button.dataset.name === app.chosen);
  const button = buttons[(at + 1) % buttons.length];
  button.focus();
  choose(button.dataset.name);
}

function turnTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  localStorage.setItem('theme', root.dataset.theme);
}

function listen() {
  const map = $('map');
  map.addEventListener('keydown', moveInMap);
  map.addEventListener('click', (event) => {
    const element = event.target.closest('.part');
    if (element) {
      focusPart(element);
      choose(element.dataset.name);
    }
  });
  $('planes').addEventListener('change', draw);
  $('theme').addEventListener('click', turnTheme);
  $('live').addEventListener('click', () => goTo(Infinity));
  $('slider').addEventListener('input', () => {
    const [from, to] = span();
    goTo(from + (to - from) * Number($('slider').value) / 1000);
  });
  $('slider').addEventListener('keydown', (event) => {
    const direction = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (direction) {
      event.preventDefault();
      step(direction);
    }
  });
  $('find').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    const name = $('find').value.trim();
    const plane = /^p(\d+)/.exec(name);
    if (plane && $('planes').value !== 'all' && $('planes').value !== plane[1]) {
      $('planes').value = plane[1];
      draw();
    }
    const found = app.parts.get(withoutDirection(name));
    if (found) focusPart(found[0]);
    if (name) choose(name);
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') close();
    if (event.target.matches('input, select') || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { '/': () => $('find').focus(), f: nextFault, l: () => goTo(Infinity), t: turnTheme }[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
}

// ---- the collector ----

async function catchUp() {
  const last = app.history.length ? app.history[app.history.length - 1][0] : 0;
  const more = await ask(`/api/history?after=${last}`);
  app.history = app.history.concat(more.filter(([number]) => number > last));
}

async function hear(state) {
  const first = app.fabric === null;
  const before = app.live;
  app.live = state;
  app.answers = true;
  if (first || before.last_event !== state.last_event) {
    try {
      await catchUp();
    } catch (error) {
      console.warn(`no history: ${error.message}`);
    }
  }
  if (first) {
    app.fabric = state.fabric;
    offerPlanes();
    draw();
  }
  paint();
  drawTicks();
  setSlider();
  if (app.past === null) refresh();
  document.body.dataset.ready = 'yes';
}

function follow() {
  const source = new EventSource('/api/live');
  source.addEventListener('message', (event) => hear(JSON.parse(event.data)));
  source.addEventListener('error', () => {
    app.answers = false;
    paint();
  });
}

document.documentElement.dataset.theme = localStorage.getItem('theme') ?? '';
if (!document.documentElement.dataset.theme) delete document.documentElement.dataset.theme;
listen();
follow();
