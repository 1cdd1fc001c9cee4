// The locks as a tree by path, with a search.

import { h } from './dom.js';
import { lockLink, sessionLink, status, waitCycles } from './parts.js';
import { mine, readLock, store } from './store.js';
import { table, visible } from './table.js';
import { clock } from './api.js';
import { ago, called, count, lasting, plural } from './words.js';

const TABLE = 'locks';
let rows = []; // as drawn last
const mode = { search: '', show: 'all', folded: new Set() };

const SHOWN = {
  all: ['All', lock => lock.state !== 'free' || lock.freed],
  held: ['Held', lock => lock.state === 'held'],
  waiting: ['Waited for', lock => lock.waiters > 0],
  delayed: ['Delayed', lock => lock.delay_remaining_ms > 0],
};

export const locksView = {
  title: 'Locks', every: 1000,
  enter(_, params) {
    if (SHOWN[params.get('show')]) mode.show = params.get('show');
    if (params.has('search')) mode.search = params.get('search');
  },
  tick: refresh,
  draw(redraw) {
    const wanted = found();
    rows = tree(wanted);
    const total = [...store.locks.values()].filter(l => l.state !== 'free').length;
    return [
      h('div', { class: 'head' }, h('h1', null, 'Locks'),
        h('p', { class: 'verdict quiet' }, store.locksRead ? (wanted.length === total ? plural(total, 'lock') : `${count(wanted.length)} of ${plural(total, 'lock')}`) : `Reading… ${count(total)}`,
          store.stale && ', perhaps out of date')),
      waitCycles(store.waitCycles),
      h('div', { class: 'tools' },
        h('input', { id: 'search', type: 'search', 'aria-label': 'Search locks by path, holder or handle', placeholder: 'Search path, holder, handle', autocomplete: 'off', spellcheck: 'false', value: mode.search,
          oninput() { mode.search = this.value; redraw(); } }),
        rows.some(r => r.dir) && h('button', { type: 'button', onclick() { fold(wanted); redraw(); } }, mode.folded.size ? 'Unfold all' : 'Fold all'),
        h('div', { class: 'choice', role: 'group', 'aria-label': 'Which locks' }, Object.entries(SHOWN).map(([name, [text]]) =>
          h('button', { type: 'button', 'aria-pressed': String(mode.show === name), onclick() { mode.show = name; redraw(); } }, text)))),
      table({
        id: TABLE, label: 'Locks', items: rows,
        columns: [{ name: 'Path', class: 'path' }, { name: 'Holder', class: 'wide' }, { name: 'State', class: 'state' }, { name: 'Queue', class: 'number queue' }, { name: 'Since', class: 'number since wide' }],
        row: item => (item.dir ? directory(item, redraw) : line(item)),
        empty: !store.locksRead ? 'Reading the locks…' : total ? 'No lock matches.' : `No lock${mine(' that you may read')} is held, waited for or delayed.`,
      }),
    ];
  },
};

// found returns the locks that match the search, by path.
function found() {
  const words = mode.search.toLowerCase().split(/\s+/).filter(Boolean);
  const [, fits] = SHOWN[mode.show];
  const all = [];
  for (const lock of store.locks.values()) {
    if (!fits(lock)) continue;
    if (words.length) {
      const text = [lock.path, ...lock.holders.slice(0, 20).flatMap(x => [x.session_name, x.handle, x.principal ?? ''])].join('\n').toLowerCase();
      if (!words.every(word => text.includes(word))) continue;
    }
    all.push(lock);
  }
  return all.sort((a, b) => (a.path < b.path ? -1 : 1));
}

// tree inserts a row for each directory that several locks share, before the first of
// them.
function tree(locks) {
  const counts = new Map();
  for (const { path } of locks) {
    for (let i = path.indexOf('/', 1); i > 0; i = path.indexOf('/', i + 1)) {
      const dir = path.slice(0, i + 1);
      counts.set(dir, (counts.get(dir) ?? 0) + 1);
    }
  }
  const out = [];
  let open = []; // the directories of the previous row
  for (const lock of locks) {
    open = open.filter(d => lock.path.startsWith(d.dir));
    if (open.some(d => mode.folded.has(d.dir))) continue;
    let hidden = false;
    for (let i = lock.path.indexOf('/', (open.at(-1)?.dir.length ?? 1)); i > 0; i = lock.path.indexOf('/', i + 1)) {
      const dir = lock.path.slice(0, i + 1), n = counts.get(dir), next = lock.path.indexOf('/', i + 1);
      const only = next > 0 && counts.get(lock.path.slice(0, next + 1)) === n;
      if (n < 2 || only) continue; // a directory with one entry is part of that entry's name
      const entry = { dir, n, depth: open.length, from: open.at(-1)?.dir.length ?? 0 };
      open = [...open, entry];
      out.push(entry);
      if (mode.folded.has(dir)) {
        hidden = true;
        break;
      }
    }
    if (!hidden) out.push({ lock, depth: open.length, from: open.at(-1)?.dir.length ?? 0 });
  }
  return out;
}

// fold folds all directories at the top, or unfolds all if any is folded.
function fold(locks) {
  if (mode.folded.size) mode.folded.clear();
  else for (const { dir, depth } of tree(locks)) if (dir && depth === 0) mode.folded.add(dir);
}

function directory({ dir, n, depth, from }, redraw) {
  const folded = mode.folded.has(dir);
  const name = h('a', {
    href: '#/locks', role: 'button', class: 'fold mono', 'aria-expanded': String(!folded), vars: { '--depth': depth },
    onclick(event) {
      event.preventDefault();
      if (!mode.folded.delete(dir)) mode.folded.add(dir);
      redraw();
    },
    onkeydown(event) { if (event.key === ' ') { event.preventDefault(); this.click(); } },
  }, dir.slice(from));
  return { key: dir, class: 'dir', cells: [name, '', h('span', { class: 'quiet' }, plural(n, 'lock')), '', ''] };
}

function line({ lock, depth, from }) {
  const [first, ...more] = lock.holders;
  const others = more.length + (lock.more_holders ?? 0);
  return {
    key: lock.path,
    class: `${lock.freed ? 'gone' : ''} ${clock() - (lock.changed ?? 0) < 2000 ? 'new' : ''}`,
    cells: [
      [lockLink(lock.path, lock.path.slice(from), { vars: { '--depth': depth }, title: lock.path, 'aria-label': lock.path }),
        h('span', { class: 'narrow quiet', vars: { '--depth': depth } }, first ? called(first.session_name, first.session) : '–', others > 0 && ` and ${count(others)} more`)],
      first ? [sessionLink(first.session, first.session_name), others > 0 && h('span', { class: 'quiet' }, ` and ${count(others)} more`)] : h('span', { class: 'quiet' }, '–'),
      stateOf(lock),
      lock.waiters ? count(lock.waiters) : '',
      first ? h('span', { title: first.granted_at }, ago(first.granted_at)) : '',
    ],
  };
}

// stateOf returns a lock's state as a mark with a word.
export function stateOf(lock) {
  const delay = Math.max(0, lock.delay_remaining_ms - (clock() - lock.at));
  if (lock.state === 'delayed' || (delay > 0 && lock.state !== 'held')) return status('warn', `delayed ${lasting(delay)}`);
  if (lock.state === 'free') return status('none', 'free');
  const limit = lock.limit ? ` ${lock.holders.length + (lock.more_holders ?? 0)}/${lock.limit}` : '';
  return status(lock.waiters ? 'busy' : 'held', lock.mode === 'shared' ? `shared${limit}` : 'exclusive');
}

// refresh reads visible locks again that may have changed without an event: queues.
async function refresh() {
  const [first, last] = visible(TABLE);
  const old = rows.slice(first, last).map(r => r.lock).filter(l => l && (l.dirty || l.waiters > 0 || l.delay_remaining_ms > 0));
  await Promise.all(old.slice(0, 12).map(l => readLock(l.path, 1).catch(() => {})));
}
