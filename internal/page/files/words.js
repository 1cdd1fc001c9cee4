// Figures and facts in words.

import { clock } from './api.js';

const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min']];

// lasting is a span of milliseconds: "1.4 s", "12 min", "3 h 20 min".
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

// timeOfDay is 14:03:07; another day's has its date in front.
export function timeOfDay(time) {
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

// bears says how many more failures a cell bears.
export function bears(n) {
  if (n === 0) return 'No further failure is borne.';
  return `${NUMBERS[n] ?? n} more ${n === 1 ? 'replica' : 'replicas'} may fail.`;
}

// called is a session's name, or the beginning of its id where it has none.
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

// told is what an event says beside its kind and path.
export function told(e) {
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
