// The page's knowledge of the cell, from three sources: lists that it reads once, events
// that change them, and short answers that it polls.

import { Failed, clock, escaped, query, read, token } from './api.js';
import { follow } from './live.js';
import { lasting } from './words.js';

const PAGE = 1000; // items of a list in one read
const KEPT = 2000; // events
const PAST = 200; // events before the page was opened
const AWAY = 60_000; // ms after which a hidden page disconnects

export const store = {
  caller: null, // the caller's principal and rights; null until they are known
  refused: '', // why authentication failed
  cell: null, cellAt: 0, cellSeen: 0, cellError: null,
  asking: 0, // when the pending call for the cell began; 0 without one
  members: null,
  locks: new Map(), // by path; a freed lock remains for a while
  locksRead: false, stale: false,
  master: undefined, // the last one that an event named, or before any event the cell
  files: new Map(), // by directory: {files, dirs, more, read}
  waitCycles: [],
  events: [], // newest first
  revision: 0, // of the last known event
  link: { state: 'connecting', since: Date.now() },
  notes: [],
};

// mine returns the text, which limits a statement to what the caller may see; for a
// caller that may see everything it returns ''.
export const mine = text => (store.caller?.operate ? '' : text);

const listeners = new Set();
export const onChange = listener => listeners.add(listener);

// onEvent sets the listener that gets each event, and after missed events an empty one.
let told = () => {};
export const onEvent = listener => { told = listener; };

let waiting = false;
// changed redraws the views, at most ten times a second.
export function changed() {
  if (waiting) return;
  waiting = true;
  setTimeout(() => {
    waiting = false;
    for (const listener of listeners) listener();
  }, 100);
}

// note shows a line above the view until it is dismissed, or for the given time in ms.
export function note(kind, text, { lasts = 0, key = text } = {}) {
  store.notes = store.notes.filter(n => n.key !== key);
  const entry = { kind, text, key, at: clock() };
  store.notes.push(entry);
  if (store.notes.length > 3) store.notes.shift();
  if (lasts) setTimeout(() => dismiss(entry), lasts);
  changed();
}

export function dismiss(entry) {
  store.notes = store.notes.filter(n => n !== entry);
  changed();
}

// Locks.

// putLock stores a lock that was read, unless the known state is newer.
function putLock(lock, revision) {
  const known = store.locks.get(lock.path);
  if (known && known.revision > revision) return;
  if (lock.state === 'free' && !known) return;
  store.locks.set(lock.path, { ...lock, revision, at: clock(), dirty: false, freed: lock.state === 'free' ? clock() : 0 });
}

// readLock reads one lock again, with its queue.
export async function readLock(path, waiters = 100) {
  const got = await read(`v1/locks${escaped(path)}?waiters=${waiters}`);
  putLock(got.body, got.revision);
  store.stale = got.stale;
  changed();
  return got.body;
}

let listing = null; // the pending reading of the list of locks

// readLocks reads the list of locks. It repeats a page that it can't read until it can,
// or until a later reading replaces this one.
async function readLocks() {
  const own = listing = {}, began = store.revision, seen = new Set();
  store.locksRead = false;
  for (let after = '', pause = 500; ;) {
    let got;
    try {
      got = await read(`v1/locks?${query({ limit: PAGE, ...(after && { after }) })}`);
    } catch (error) {
      if (own !== listing) return;
      if (!(error instanceof Failed)) throw error;
      note('warn', `The locks can't be read: ${error.message}`, { lasts: 10_000, key: 'locks' });
      await new Promise(done => setTimeout(done, Math.max(pause, error.retryAfter * 1000)));
      pause = Math.min(2 * pause, 10_000);
    }
    if (own !== listing) return;
    if (!got) continue;
    for (const lock of got.body.locks) {
      seen.add(lock.path);
      putLock(lock, got.revision);
    }
    store.stale = got.stale;
    changed();
    after = got.body.next;
    if (!after) break;
  }
  for (const [path, lock] of store.locks) {
    if (!seen.has(path) && lock.revision <= began) store.locks.delete(path);
  }
  store.locksRead = true;
  listing = null;
  changed();
}

function lockEvent(e) {
  const lock = store.locks.get(e.path) ?? { path: e.path, state: 'free', limit: 0, holders: [], waiters: 0, delay_remaining_ms: 0, revision: 0 };
  if (e.revision <= lock.revision) return;
  const { session, session_name, handle, mode, token: fence } = e;
  let { holders, waiters } = lock;
  if (e.type === 'lock_acquired') {
    holders = [...holders.filter(x => x.token !== fence), { session, session_name, handle, mode, token: fence, granted_at: new Date(clock()).toISOString() }];
    waiters = Math.max(0, waiters - 1);
  } else if (e.type === 'lock_released') {
    holders = holders.filter(x => x.token !== fence);
  } else {
    waiters = Math.max(1, waiters);
  }
  const state = holders.length ? 'held' : 'free';
  store.locks.set(e.path, {
    ...lock, state, holders, waiters, mode: holders[0]?.mode, revision: e.revision, at: clock(), changed: clock(),
    dirty: true, freed: state === 'free' ? clock() : 0,
  });
}

// forgetFreed drops locks that have been free for 10 s. The page may not know whether the
// requests of a queue have left, and keeps such a lock for a minute. A read of a visible
// lock with a queue begins that time again.
async function forgetFreed() {
  for (const [path, { state, freed, at, delay_remaining_ms: delay, waiters }] of store.locks) {
    const since = state === 'delayed' ? at + delay : freed;
    if (since && clock() - since > (waiters ? 60_000 : 10_000)) store.locks.delete(path);
  }
}

// Files. A directory is read when a view shows it.

// readDirectory reads a directory, and then applies the events that arrived during the read.
export async function readDirectory(prefix) {
  const known = store.files.get(prefix) ?? { files: new Map(), dirs: new Set(), read: false };
  const next = { files: new Map(), dirs: new Set(), read: true, more: false }, missed = [];
  Object.assign(known, { missed, stale: false });
  store.files.set(prefix, known);
  for (let after = ''; ;) {
    let got;
    try {
      got = await read(`v1/files?${query({ prefix, delimiter: '/', limit: PAGE, ...(after && { after }) })}`);
    } catch (error) {
      Object.assign(known, { missed: null, stale: true });
      throw error;
    }
    for (const file of got.body.files) next.files.set(file.path, file);
    for (const dir of got.body.dirs) next.dirs.add(dir);
    after = got.body.next;
    next.more = !!after;
    if (!after || next.files.size + next.dirs.size >= 20 * PAGE) break;
  }
  if (store.files.get(prefix) !== known || known.missed !== missed) return; // a later reading replaces this one
  for (const e of missed) changeFile(next, prefix, e);
  store.files.set(prefix, { ...next, stale: known.stale });
  changed();
}

function fileEvent(e) {
  for (const [prefix, dir] of store.files) {
    if (!e.path.startsWith(prefix)) continue;
    dir.missed?.push(e);
    changeFile(dir, prefix, e);
  }
}

// changeFile changes a directory by an event, unless its entry is newer.
function changeFile(dir, prefix, { type, reason, ...stat }) {
  const below = stat.path.indexOf('/', prefix.length);
  if (below >= 0) {
    if (type === 'file_deleted') dir.stale = true;
    else dir.dirs.add(stat.path.slice(0, below + 1));
  } else if (dir.files.get(stat.path)?.revision > stat.revision) {
    return;
  } else if (type === 'file_deleted') {
    dir.files.delete(stat.path);
  } else {
    dir.files.set(stat.path, stat);
  }
}

// Events.

function happen(e) {
  store.revision = Math.max(store.revision, e.revision);
  store.events.unshift({ ...e, at: clock() });
  if (store.events.length > KEPT + 200) store.events.length = KEPT;
  if (e.type.startsWith('lock_')) lockEvent(e);
  else if (e.type.startsWith('file_')) fileEvent(e);
  else if (e.type === 'master_changed') masterChanged(e);
  told(e);
  changed();
}

function masterChanged(e) {
  const before = store.master;
  store.master = e.master;
  note('turn', before && before !== e.master
    ? `${e.master} is master now, in epoch ${e.epoch}; before it was ${before}. Sessions and locks stayed.`
    : `${e.master} is master, in epoch ${e.epoch}.`, { key: `epoch ${e.epoch}` });
  readCell();
  readMembers();
}

// readPast reads the events before the present revision that the replica remembers, at
// most PAST. An event has no time of its own, so only the times of writes are known.
async function readPast() {
  const upTo = store.revision;
  let after = Math.max(0, upTo - PAST), got;
  for (let tries = 0; !got && tries < 3 && after < upTo; tries++) {
    try {
      got = await read(`v1/events?${query({ after, limit: PAST })}`);
    } catch (error) {
      if (error.code !== 'compacted') return;
      after = error.problem.oldest ?? upTo;
    }
  }
  const known = new Set(store.events.map(e => e.revision));
  const past = (got?.body.events ?? []).filter(e => e.revision <= upTo && !known.has(e.revision));
  store.events.push(...past.reverse().map(e => ({ ...e, at: e.type === 'file_deleted' ? undefined : e.modified_at })));
  changed();
}

// again reads everything again after missed events.
function again() {
  Object.assign(store, { events: [], master: undefined });
  readPast();
  for (const dir of store.files.values()) dir.stale = true;
  readLocks();
  told({});
}

// Polled answers.

async function readCell() {
  if (!store.caller?.observe) return;
  store.asking ||= performance.now();
  try {
    const { body } = await read('v1/cell');
    const first = !store.cell;
    if (health(body) !== health(store.cell)) readMembers(); // the members' answer has the tolerated failures
    Object.assign(store, { cell: body, cellAt: performance.now(), cellSeen: clock(), cellError: null, master: store.master ?? body.master?.id });
    if (first) readWaitCycles();
  } catch (error) {
    if (error.code !== 'other_caller') store.cellError = error;
    if (error.status === 401 || error.status === 403) await identify().catch(() => {});
  }
  store.asking = 0;
  changed();
}

const health = cell => cell?.replicas.map(r => `${r.id} ${r.healthy} ${r.role}`).join();

// hung reports whether the replica has left a call without an answer for 3 s.
export const hung = () => store.asking > 0 && performance.now() - store.asking > 3000;

async function readMembers() {
  if (!store.caller?.observe) return;
  try {
    store.members = (await read('v1/members')).body;
  } catch { /* the cell's answer has the error */ }
  changed();
}

// readWaitCycles reads the cycles of waits if at least two requests wait.
let findsCycles = true;
async function readWaitCycles() {
  const wait = store.cell?.waiters ?? [...store.locks.values()].filter(l => l.waiters > 0).length;
  if (!findsCycles || wait < 2) {
    store.waitCycles = [];
    return;
  }
  try {
    store.waitCycles = (await read('v1/deadlocks')).body.deadlocks;
  } catch (error) {
    store.waitCycles = [];
    findsCycles = error.status !== 404; // an older release
  }
  changed();
}

const whoami = async headers => (await read('v1/access/whoami?rights=true', headers)).body;

// identify reads the caller's principal and rights.
async function identify() {
  try {
    Object.assign(store, { caller: await whoami(), refused: '' });
  } catch (error) {
    if (error.status === 401) {
      Object.assign(store, { caller: { principal: 'anonymous', how: 'none', observe: false, operate: false }, refused: error.message });
    }
    throw error;
  } finally {
    changed();
  }
}

// pace has the intervals of polling in ms, which the view sets.
export const pace = { cell: 2000, members: 5000 };

async function repeat(job, every) {
  for (;;) {
    if (!document.hidden) await job();
    await new Promise(done => setTimeout(done, every()));
  }
}

// A hidden page does not poll, and closes its connection after AWAY: browsers allow
// only a few connections per host.
let hiddenAt = 0;
const asleep = () => document.hidden && Date.now() - hiddenAt > AWAY;

let stream = null;

function listen() {
  stream?.stop();
  stream = follow({
    after: () => store.revision,
    event: happen,
    upTo(revision) { store.revision = Math.max(store.revision, revision); },
    began() {
      readPast();
      readLocks();
    },
    state(link) {
      const before = store.link;
      store.link = link;
      if (link.state === 'live' && before.state === 'broken' && before.was) {
        note('good', `Live again after ${lasting(Date.now() - before.since)}.`, { lasts: 20_000, key: 'live' });
      }
      // Without a master no stream can begin "from now on", but the replica serves its own
      // state.
      if (link.state === 'broken' && !store.locksRead && !listing) readLocks();
      changed();
    },
    compacted(revision) {
      note('warn', 'Some events were missed: the replica no longer keeps them. The page reads everything again.', { lasts: 30_000 });
      if (revision < store.revision) store.locks.clear(); // the state of the cell was lost
      store.revision = revision;
      again();
    },
    denied() {
      note('warn', 'The credential is no longer accepted.', { lasts: 30_000 });
      identify().catch(() => {});
    },
  });
}

// signIn continues with another token once the cell has accepted it.
export async function signIn(secret) {
  const caller = await whoami({ Authorization: `Bearer ${secret}` });
  token.set(secret);
  forget();
  Object.assign(store, { caller, refused: '' });
  listen();
  readCell();
  readMembers();
}

// signOut drops the token and the caller at once, whether or not the replica answers.
export function signOut() {
  token.set('');
  forget();
  Object.assign(store, { caller: null, refused: '' });
  listen();
  identify().catch(() => {});
}

// forget drops everything that the previous caller could see.
function forget() {
  listing = null;
  Object.assign(store, { cell: null, members: null, waitCycles: [], locks: new Map(), locksRead: false, files: new Map(), events: [], revision: 0, cellError: null, master: undefined });
  changed();
}

export async function start() {
  await identify().catch(error => {
    if (error.status === 401) token.set('');
    else store.cellError = error;
  });
  listen();
  repeat(readCell, () => pace.cell);
  repeat(readMembers, () => pace.members);
  repeat(readWaitCycles, () => 3000);
  repeat(async () => { if (!store.caller) await identify().catch(() => {}); }, () => 1000);
  repeat(forgetFreed, () => 5000);
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) hiddenAt = Date.now();
    else {
      if (stream.asleep()) stream.wake();
      readCell();
    }
  });
  setInterval(() => { if (asleep()) stream.sleep(); }, 5000);
}
