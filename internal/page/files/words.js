// Texts for figures and facts.

import { clock } from './api.js';

const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min']];

// lasting formats a span of milliseconds: "1.4 s", "12 min", "3 h 20 min".
export function lasting(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const i = UNITS.findIndex(([size]) => s >= size);
  const [size, name] = UNITS[i];
  const rest = i + 1 < UNITS.length ? Math.floor((s % size) / UNITS[i + 1][0]) : 0;
  return `${Math.floor(s / size)} ${name}` + (rest ? ` ${rest} ${UNITS[i + 1][1]}` : '');
}

export const ago = time => lasting(clock() - Date.parse(time));

const pad = (n, width = 2) => String(n).padStart(width, '0');

// timeOfDay formats a time as 14:03:07, on another day with the date in front. An event
// from before the page was opened may have no time.
export function timeOfDay(time) {
  if (!time) return 'earlier';
  const d = new Date(time);
  const text = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return d.toDateString() === new Date(clock()).toDateString() ? text : `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${text}`;
}

export const count = n => (n ?? 0).toLocaleString('en').replaceAll(',', '\u202f');

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

const NUMBERS = ['No', 'One', 'Two', 'Three', 'Four'];

// memberTolerance describes how many more failures a list of members tolerates.
export const memberTolerance = ({ members, tolerates }) => (members.some(m => m.role === 'master')
  ? tolerance(tolerates) : 'There is no master: too many replicas have failed, or an election is under way.');

// tolerance describes how many more failures a cell tolerates.
export function tolerance(n) {
  if (n === 0) return 'The cell tolerates no further failure.';
  return `${NUMBERS[n] ?? n} more ${n === 1 ? 'replica' : 'replicas'} may fail.`;
}

// afterRelease describes which sessions have a lock once one holder has lost it. others
// is the number of other holders; the queue may be only the beginning of the real one.
export function afterRelease({ queue = [], waiters, mode, limit }, others) {
  if (!waiters) return others ? `No session is waiting; the ${plural(others, 'other holder')} still ${others === 1 ? 'has' : 'have'} it.` : 'No session is waiting: the lock is free at once, without lock-delay.';
  const [first] = queue;
  if (!first) return 'The first in the queue is next, without lock-delay.';
  const name = called(first.session_name, first.session);
  if (others && (first.mode === 'exclusive' || mode === 'exclusive')) return `${name} is next, and still waits for the ${plural(others, 'other holder')}.`;
  let together = 1;
  while (together < queue.length && first.mode === 'shared' && queue[together].mode === 'shared' && (!limit || others + together < limit)) together++;
  if (together > 1) return `${name} and the next ${together === 2 ? 'request' : `${count(together - 1)} requests`} get the lock at once, without lock-delay.`;
  return `${name} is next and gets the lock at once, without lock-delay.`;
}

// freed describes what happens to the locks of a session that is ended.
export function freed(holds) {
  if (!holds.length) return 'It holds no lock.';
  const all = holds.length === 1 ? 'lock is' : `${count(holds.length)} locks are`;
  if (holds.every(x => x.mode !== 'shared')) return `Its ${all} free at once, without lock-delay; the next in ${holds.length === 1 ? 'the queue gets it' : 'each queue gets them'}.`;
  return `Its ${all} released at once, without lock-delay. Other holders keep a shared lock, and requests that wait for all of them continue to wait. A lock without other holders is free; the next in its queue gets it.`;
}

// called returns a session's name, or the beginning of its id if it has no name.
export const called = (name, id) => name || `session ${short(id)}`;

export const short = id => (id && id.length > 10 ? `${id.slice(0, 8)}…` : id ?? '');

const ENDS = {
  released: 'released', session_closed: 'its session was closed', session_expired: 'its session expired',
  forced: 'released by force', deleted: 'deleted', session_ended: 'its session ended',
};

export const reason = name => ENDS[name] ?? (name ?? '').replaceAll('_', ' ');

const HAPPENED = {
  lock_acquired: 'acquired', lock_released: 'released', lock_contended: 'waits',
  file_created: 'created', file_changed: 'changed', file_deleted: 'deleted', master_changed: 'master',
};

export const happened = type => HAPPENED[type] ?? type.replaceAll('_', ' ');

// atLeast qualifies how long a session was silent, if its master had just taken office
// at the last keepalive: a new master does not know earlier keepalives.
export function atLeast(end, events) {
  const keptAlive = Date.parse(end.at) - end.silent_ms;
  const tookOffice = e => e.type === 'master_changed' && Date.parse(e.at) < Date.parse(end.at) && Math.abs(keptAlive - Date.parse(e.at)) < 1000;
  return events.some(tookOffice) ? 'at least ' : '';
}

// details describes an event apart from its kind and path.
export function details(e) {
  switch (e.type) {
    case 'master_changed': return `${e.master} is master, epoch ${e.epoch}`;
    case 'lock_acquired': return `${called(e.session_name, e.session)} · ${e.mode} · token ${e.token}`;
    case 'lock_released': return `${called(e.session_name, e.session)} · ${reason(e.reason)}`;
    case 'lock_contended': return `${called(e.session_name, e.session)} · ${e.mode}`;
    case 'file_deleted': return reason(e.reason);
    case 'file_created': case 'file_changed': return `${bytes(e.size ?? 0)} · generation ${e.generation}`;
  }
  return e.reason ? reason(e.reason) : '';
}
