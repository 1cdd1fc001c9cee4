// The list of sessions with what is left of their leases, and one session.

import { final, query, read } from './api.js';
import { endSession } from './ask.js';
import { h } from './dom.js';
import { back, lockLink, meter, sessionLink } from './parts.js';
import { changed, store } from './store.js';
import { table } from './table.js';
import { ago, called, count, lasting, plural, timeOfDay } from './words.js';
import { fact } from './view-cell.js';

const PAGE = 1000;
const known = new Map(); // by id, with the time of reading
let search = '', complete = false, caller;
let pass; // the pass through the list: the next page, and the ids that it has seen

// left returns what is left of a session's lease, counted from when it was read.
const left = s => (s.lease_remaining_ms === undefined ? undefined : Math.max(0, s.lease_remaining_ms - (performance.now() - s.readAt)));

export const sessionsView = {
  title: 'Sessions', every: 1000,
  enter() {
    pass = { next: '', seen: new Set() };
    if (caller !== store.caller) {
      known.clear();
      complete = false;
    }
    caller = store.caller;
    readQuotas();
  },
  // tick reads one page of the list: sessions open and end without events.
  async tick() {
    const own = pass;
    let got;
    try {
      got = await read(`v1/sessions?${query({ limit: PAGE, ...(own.next && { after: own.next }) })}`);
    } catch {
      return;
    }
    if (own !== pass) return; // the view was entered again
    const readAt = performance.now();
    for (const s of got.body.sessions) {
      known.set(s.id, { ...s, readAt });
      own.seen.add(s.id);
    }
    own.next = got.body.next ?? '';
    if (!own.next) {
      readQuotas();
      for (const id of known.keys()) if (!own.seen.has(id)) known.delete(id);
      own.seen = new Set();
      complete = true;
    }
    changed();
    if (!complete) await sessionsView.tick();
  },
  draw(redraw) {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...known.values()].filter(s => words.every(w => `${s.name}\n${s.id}\n${s.principal ?? ''}\n${Object.entries(s.meta).join('\n')}`.toLowerCase().includes(w)));
    all.sort((a, b) => (a.name === b.name ? (a.id < b.id ? -1 : 1) : a.name < b.name ? -1 : 1));
    return [
      h('div', { class: 'head' }, h('h1', null, 'Sessions'), h('p', { class: 'verdict quiet' }, complete ? (all.length === known.size ? plural(known.size, 'session') : `${count(all.length)} of ${plural(known.size, 'session')}`) : `Reading… ${count(known.size)}`)),
      h('div', { class: 'tools' }, h('input', { id: 'search', type: 'search', 'aria-label': 'Search sessions by name, id, principal or metadata', placeholder: 'Search name, id, principal, metadata', autocomplete: 'off', spellcheck: 'false', value: search, oninput() { search = this.value; redraw(); } })),
      table({
        id: 'sessions', label: 'Sessions', items: all, empty: complete ? (known.size ? 'No session matches.' : 'No session is open.') : 'Reading the sessions…',
        columns: [{ name: 'Session', class: 'path' }, { name: 'Lease left', class: 'lease' }, { name: 'Holds', class: 'number' }, { name: 'Waits', class: 'number' }, { name: 'Principal', class: 'wide' }, { name: 'Open for', class: 'number wide' }],
        row: s => ({ key: s.id, cells: [sessionLink(s.id, s.name), lease(s), s.holds.length || '', s.waits.length || '', s.principal ?? '', ago(s.created_at)] }),
      }),
      quotaTable(),
    ];
  },
};

// The quotas of principals, with their use. Only operators may read them.
let quotas = [];
async function readQuotas() {
  quotas = store.caller?.operate && store.cell?.access ? await read('v1/access/quotas').then(got => got.body.quotas, () => []) : [];
}

const LIMITS = ['sessions', 'holds', 'waiters', 'files', 'bytes', 'watches', 'calls_per_second'];

function quotaTable() {
  const used = (q, name) => (q[name] === undefined ? '–' : q.used?.[name] === undefined ? count(q[name]) : `${count(q.used[name])} of ${count(q[name])}`);
  return quotas.length > 0 && h('section', { 'aria-labelledby': 'quotas' }, h('h2', { id: 'quotas' }, 'Quotas'),
    h('table', { class: 'short' },
      h('thead', null, h('tr', null, ['Principal', ...LIMITS].map(name => h('th', { scope: 'col' }, name.replaceAll('_', ' '))))),
      h('tbody', null, quotas.map(q => h('tr', { key: q.principal }, h('th', { scope: 'row' }, q.principal),
        LIMITS.map(name => h('td', { class: `number ${q.used?.[name] >= q[name] ? 'full' : ''}` }, used(q, name))))))));
}

function lease(s) {
  const rest = left(s);
  if (rest === undefined) return h('span', { class: 'quiet' }, `ttl ${lasting(s.ttl_ms)}`);
  return h('span', { class: 'left' }, meter(`Lease of ${called(s.name, s.id)}`, rest, s.ttl_ms, `${lasting(rest)} of ${lasting(s.ttl_ms)}`), h('span', { class: 'small' }, lasting(rest), h('span', { class: 'quiet wide' }, ` / ${lasting(s.ttl_ms)}`)));
}

let id, session, error;

export const sessionView = {
  title: () => (session ? called(session.name, session.id) : 'Session'), every: 500, under: 'sessions',
  enter(rest) {
    id = rest.slice(1);
    session = error = undefined;
    sessionView.tick();
  },
  async tick() {
    const wanted = id;
    if (final(error)) return;
    try {
      const { body } = await read(`v1/sessions/${encodeURIComponent(wanted)}`);
      if (wanted === id) [session, error] = [{ ...body, readAt: performance.now() }, undefined];
    } catch (failure) {
      if (wanted === id) error = failure;
    }
    changed();
  },
  draw() {
    const name = session ? called(session.name, session.id) : 'Session';
    const gone = error?.code === 'session_not_found';
    return [
      back('#/sessions', 'Sessions'),
      h('div', { class: 'head' }, h('h1', null, name), session && !gone && store.caller?.operate && h('button', { type: 'button', class: 'danger', onclick: () => endSession(session, name) }, 'End the session…')),
      error && h('p', { class: 'error' }, gone ? 'This session no longer exists: it was closed or has expired.' : error.message),
      session && !gone && [
        h('div', { class: 'wideleft' }, lease(session)),
        h('section', { class: 'card' }, h('dl', null,
          fact('Id', session.id, true), fact('Principal', session.principal || 'unknown'), fact('Open since', `${timeOfDay(session.created_at)} (${ago(session.created_at)})`), fact('Opened in epoch', session.epoch),
          Object.entries(session.meta).map(([k, v]) => fact(k, v, true)))),
        part('Holds', session.holds, ['Path', 'Mode', 'Token', 'Handle'], x => [lockLink(x.path), x.mode, x.token, x.handle], 'It holds no lock.'),
        part('Waits', session.waits, ['Path', 'Mode', 'Position', 'Handle'], x => [lockLink(x.path), x.mode, x.position, x.handle], 'It waits for no lock.'),
      ],
    ];
  },
};

const part = (name, all, columns, cells, empty) => h('section', { 'aria-label': name }, h('h2', null, name),
  all.length
    ? h('table', { class: 'short' }, h('thead', null, h('tr', null, columns.map(c => h('th', { scope: 'col' }, c)))),
      h('tbody', null, all.slice(0, 500).map(x => h('tr', { key: `${x.path}\n${x.handle}` }, cells(x).map(c => h('td', null, c))))))
    : h('p', { class: 'empty' }, empty),
  all.length > 500 && h('p', { class: 'quiet' }, `and ${count(all.length - 500)} more`));
