// One lock: its holders, its queue and its history.

import { clock, final, inOrder, query, read } from './api.js';
import { release } from './ask.js';
import { h } from './dom.js';
import { back, sessionLink, status, waitCycles } from './parts.js';
import { readLock, store } from './store.js';
import { stateOf } from './view-locks.js';
import { ago, atLeast, called, count, details, happened, lasting, plural, reason, timeOfDay } from './words.js';

let path, lock, error, history, late;
let admin; // a rule lets the caller release by force
let news; // timer of the next reading
const looks = inOrder(), histories = inOrder();
let none = false; // the replica keeps no history

export const lockView = {
  title: () => path, every: 1000, under: 'locks',
  enter(rest) {
    path = rest;
    lock = error = history = undefined;
    looks()();
    histories()();
    admin = false;
    lockView.tick();
    past();
    const wanted = path;
    if (!store.caller?.operate) read(`v1/access/check?${query({ path })}`).then(got => { if (wanted === path) admin = got.body.admin.allowed; }, () => {});
  },
  async tick() {
    if (final(error)) return;
    if (late) past();
    const wanted = looks();
    try {
      const got = await readLock(path);
      if (wanted()) [lock, error] = [{ ...got, at: clock() }, undefined];
    } catch (failure) {
      if (wanted()) error = failure;
    }
  },
  event(e) { if (!e.path || e.path === path) news ??= setTimeout(() => { news = undefined; lockView.tick(); past(); }, 100); },
  draw() {
    return [back('#/locks', 'Locks'), h('div', { class: 'head' }, h('h1', { class: 'mono' }, path), lock && h('p', { class: 'verdict' }, stateOf(lock), ' ', says(lock))),
      error && h('p', { class: 'error' }, error.message),
      waitCycles(store.waitCycles.filter(c => c.links.some(l => l.path === path))),
      lock && holders(lock), lock && queue(lock), timeline()];
  },
};

function says({ holders, state, delay_remaining_ms: delay, waiters }) {
  if (state === 'free') return 'No session holds it.';
  if (state === 'delayed') return `Its last holder's session expired: no session can get it for another ${lasting(delay)}.`;
  const name = holders.length === 1 ? called(holders[0].session_name, holders[0].session) : `${count(holders.length)} sessions`;
  return `${name} ${holders.length === 1 ? 'has held' : 'hold'} it${holders.length === 1 ? ` for ${ago(holders[0].granted_at)}` : ''}; ${waiters ? `${plural(waiters, 'request waits', 'requests wait')}.` : 'no request waits.'}`;
}

const head = (...names) => h('thead', null, h('tr', null, names.map(n => h('th', { scope: 'col', class: n.class }, n.name ?? n))));
const wide = name => ({ name, class: 'wide' });

function holders(known) {
  const { holders: all, more_holders: more } = known, may = admin || store.caller.operate;
  if (!all.length) return null;
  return h('section', { 'aria-labelledby': 'holders' }, h('h2', { id: 'holders' }, all.length === 1 ? 'Holder' : 'Holders'),
    h('table', { class: 'short' }, head('Session', wide('Principal'), wide('Handle'), wide('Mode'), 'Token', 'Held for', ...(may ? [{ name: h('span', { class: 'unseen' }, 'Action') }] : [])),
      h('tbody', null, all.slice(0, 200).map(x => h('tr', { key: x.token },
        h('th', { scope: 'row' }, sessionLink(x.session, x.session_name)),
        h('td', { class: 'wide' }, x.principal), h('td', { class: 'wide mono' }, x.handle),
        h('td', { class: 'wide' }, x.mode), h('td', { class: 'mono' }, x.token),
        h('td', { title: x.granted_at }, ago(x.granted_at), x.unclaimed_ms ? status('warn', 'unclaimed') : ''),
        may && h('td', { class: 'act' }, h('button', { type: 'button', class: 'danger quietly', onclick: () => release({ ...known, path }, x, called(x.session_name, x.session)) },
          'Release…', h('span', { class: 'unseen' }, ` by force from ${called(x.session_name, x.session)}`))))))),
    (all.length > 200 || more) && h('p', { class: 'quiet' }, `and ${count(all.length - Math.min(200, all.length) + (more ?? 0))} more`));
}

function queue({ queue: all = [], waiters, at }) {
  if (!waiters) return null;
  return h('section', { 'aria-labelledby': 'queue' }, h('h2', { id: 'queue' }, 'Queue'),
    h('table', { class: 'short' }, head('Position', 'Session', wide('Principal'), wide('Handle'), wide('Mode'), 'Waiting for'),
      h('tbody', null, all.map(x => h('tr', { key: `${x.session}/${x.handle}` },
        h('td', { class: 'number' }, x.position), h('th', { scope: 'row' }, sessionLink(x.session, x.session_name)),
        h('td', { class: 'wide' }, x.principal), h('td', { class: 'wide mono' }, x.handle), h('td', { class: 'wide' }, x.mode), h('td', { title: x.since }, lasting(x.waiting_ms + clock() - at)))))),
    waiters > all.length && h('p', { class: 'quiet' }, `and ${count(waiters - all.length)} more`));
}

// past reads the lock's history. If the replica keeps no history, the page shows the
// events that it has received itself.
async function past() {
  const wanted = histories();
  late = false;
  if (none) return;
  try {
    const got = await read(`v1/history?${query({ path, limit: 50 })}`);
    if (wanted()) history = got.body;
  } catch (failure) {
    none = failure.status === 404;
    if (!wanted()) return;
    late = !final(failure);
    history ??= null;
  }
}

function timeline() {
  const events = history?.events ?? store.events.filter(e => e.path === path).slice(0, 50);
  return h('section', { 'aria-labelledby': 'past' }, h('h2', { id: 'past' }, 'History'),
    events.length
      ? h('ol', { class: 'timeline' }, events.map(e => h('li', { key: e.revision, class: `is ${e.type} ${e.reason ?? ''}` },
        h('time', { datetime: e.at && new Date(e.at).toISOString(), class: 'quiet' }, e.at ? timeOfDay(e.at) : ''),
        h('span', { class: 'what' }, h('b', null, happened(e.type)), ' ', sentence(e, events)),
        h('span', { class: 'quiet mono small wide' }, `revision ${e.revision}`))))
      : h('p', { class: 'empty' }, history === undefined && !none ? 'Loading the history…' : history ? 'The replica has no event of this lock.' : 'No event since the page was opened.'),
    history && h('p', { class: 'quiet small' }, history.more && 'Older events are not shown. ', history.since && `The replica has all events since ${timeOfDay(history.since)}.`));
}

function sentence(e, events) {
  if (!e.session) return details(e);
  const session = sessionLink(e.session, e.session_name);
  if (e.type === 'lock_acquired') return [session, ` · ${e.mode} · token ${e.token}`, e.waited_ms ? ` · had waited for ${lasting(e.waited_ms)}` : ''];
  if (e.type === 'lock_released') {
    return [session, ` · ${reason(e.reason)}`, e.by && (e.reason === 'forced' || e.by !== e.principal) ? ` by ${e.by}` : '', e.silent_ms ? `: last keepalive ${atLeast(e, events)}${lasting(e.silent_ms)} before, ttl ${lasting(e.ttl_ms)}` : '',
      e.held_ms ? ` · had held it for ${lasting(e.held_ms)}` : ''];
  }
  return [session, ` · ${e.mode}`];
}
