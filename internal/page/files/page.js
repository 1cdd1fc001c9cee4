// The page: the bar and notes above every view, and the choice of the view.

import { token } from './api.js';
import { byId, h, render, seen } from './dom.js';
import { link, status } from './parts.js';
import { dismiss, hung, onChange, onEvent, pace, signIn, signOut, start, store } from './store.js';
import { onScroll } from './table.js';
import { cellView, membersView, verdict } from './view-cell.js';
import { eventsView } from './view-events.js';
import { fileView, filesView } from './view-files.js';
import { lockView } from './view-lock.js';
import { locksView } from './view-locks.js';
import { sessionView, sessionsView } from './view-sessions.js';
import { lasting, timeOfDay } from './words.js';

const views = {
  cell: cellView, locks: locksView, lock: lockView, sessions: sessionsView, session: sessionView,
  files: filesView, file: fileView, events: eventsView, members: membersView,
};

// NAV lists the entries of the menu; true marks views that need the right to observe.
const NAV = [['cell', 'Cell', true], ['locks', 'Locks'], ['sessions', 'Sessions', true], ['files', 'Files'], ['events', 'Events'], ['members', 'Members', true]];

let name = '', view, asking = false, signError = '', timer;

const may = ([, , observe]) => !observe || store.caller?.observe;

// plain decodes a part of the address; it returns a malformed part unchanged.
function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// go shows the view that the address names.
function go(event) {
  const [where, params] = location.hash.slice(2).split('?');
  const [first, ...rest] = where.split('/').map(plain);
  name = views[first] ? first : store.caller && !store.caller.observe ? 'locks' : 'cell';
  view = views[name];
  view.enter?.(`/${rest.join('/')}`, new URLSearchParams(params));
  pace.cell = view.pace ?? 2000;
  pace.members = name === 'members' ? 2000 : 10_000;
  clearInterval(timer);
  let busy = false;
  const tick = async () => {
    draw();
    if (busy || document.hidden || !view.tick) return;
    busy = true;
    await view.tick();
    busy = false;
  };
  timer = setInterval(tick, view.every ?? 1000);
  tick();
  if (event) {
    scrollTo(0, 0);
    byId('main').focus({ preventScroll: true });
  }
}

function draw() {
  render(byId('bar'), bar());
  render(byId('notes'), store.notes.map(n => h('div', { class: `note ${n.kind}`, key: n.key }, h('span', { class: 'mono small' }, timeOfDay(n.at)), h('span', null, n.text), h('button', { type: 'button', 'aria-label': 'Dismiss the note', onclick: () => dismiss(n) }, '×'))), trouble());
  render(byId('main'), shown());
  const title = typeof view.title === 'function' ? view.title() : view.title;
  const full = seen(`${title} · ${store.cell?.cell ?? 'Stout'}`);
  if (document.title !== full) document.title = full;
}

// shown returns the view, or the form or message that comes before it.
function shown() {
  if (asking || store.refused) return sign();
  if (!store.caller) return h('p', { class: 'empty' }, store.cellError ? store.cellError.message : 'Loading the cell…');
  if (!may(NAV.find(([n]) => n === (view.under ?? name)))) {
    return [h('h1', null, 'Permission needed'), h('p', null, `${store.caller.principal} may not observe the whole cell. Enter a token that may, or view the locks and files that you may read.`), h('p', null, h('button', { type: 'button', onclick: askToken }, 'Enter a token'), ' ', link('#/locks', 'Locks'))];
  }
  return view.draw(draw);
}

function bar() {
  const { caller, link: l, cell } = store;
  return [
    h('a', { class: 'brand', href: '#/cell' }, h('img', { src: 'icon.svg', alt: '', width: 22, height: 22 }), h('span', null, 'Stout'), cell && h('span', { class: 'quiet cellname' }, cell.cell)),
    h('nav', { 'aria-label': 'Views' }, NAV.filter(may).map(([n, text]) => link(`#/${n === 'files' ? 'files/' : n}`, text, { key: n, 'aria-current': (view.under ?? name) === n ? 'page' : null }))),
    h('div', { class: 'end' }, h('span', { id: 'link', title: l.why || null }, linkState(l)),
      caller && (caller.how !== 'none' || token.get()
        ? h('button', { type: 'button', class: 'quietly', onclick: leave, title: 'Forget the token' }, caller.principal)
        : h('button', { type: 'button', class: 'quietly', onclick: askToken }, caller.operate ? 'Token' : 'Enter a token'))),
  ];
}

function linkState({ state, since }) {
  if (hung()) return status('bad', 'no answer');
  switch (state) {
    case 'live': return status('good', 'live');
    case 'broken': return status('bad', `not live for ${lasting(Date.now() - since)}`);
    case 'asleep': return status('wait', 'asleep');
  }
  return status('wait', 'connecting');
}

// trouble returns a note while there is a problem with the connection to the cell.
function trouble() {
  const { link: l, cell, cellError } = store;
  const [kind, text] = verdict();
  if (hung() || (l.state === 'broken' && cellError?.status === 0)) {
    return h('div', { class: 'note bad', key: 'trouble' }, h('span', null, 'This replica does not answer. The page shows the last known state and retries.'), others(cell));
  }
  if (kind === 'bad' && cell && !cell.master) return h('div', { class: 'note bad', key: 'trouble' }, h('span', null, text), others(cell));
  if (l.state === 'broken' && l.why) return h('div', { class: 'note warn', key: 'trouble' }, h('span', null, `Not live: ${l.why}`));
  return null;
}

// others links to the pages of the other replicas.
function others(cell) {
  const all = (cell?.replicas ?? []).filter(r => r.url && !r.url.startsWith(location.origin));
  return all.length > 0 && h('span', null, 'The page of another replica: ', all.map(r => [' ', link(new URL('/ui/', r.url).href, r.id)]));
}

function askToken() {
  asking = true;
  signError = '';
  draw();
  byId('token').focus();
}

function leave() {
  asking = false;
  signOut();
  go();
}

function sign() {
  return h('form', { class: 'card sign', onsubmit: submit },
    h('h1', null, 'Sign in'),
    h('p', null, 'Access is on in this cell, or may be. Enter a token of the cell (', h('code', null, 'stout_…'), ') or a JWT. Only this tab keeps it, until you close the tab.'),
    h('label', { for: 'token' }, 'Token'),
    h('input', { id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true }),
    (signError || store.refused) && h('p', { class: 'error', role: 'alert' }, signError || store.refused),
    h('div', { class: 'buttons' },
      h('button', { type: 'button', onclick: dontSign }, token.get() && !store.refused ? 'Cancel' : 'Continue without a token'),
      h('button', { type: 'submit', class: 'main' }, 'Sign in')));
}

// dontSign closes the form, and drops a token that was refused.
function dontSign() {
  asking = false;
  if (store.refused) leave();
  else draw();
}

async function submit(event) {
  event.preventDefault();
  const field = byId('token');
  try {
    await signIn(field.value.trim());
    field.value = '';
    asking = false;
    signError = '';
    go(true);
  } catch (error) {
    signError = error.message;
    draw();
  }
}

// A slash moves to the search, as on many pages.
addEventListener('keydown', event => {
  if (event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !/INPUT|TEXTAREA/.test(document.activeElement?.tagName) && byId('search')) {
    event.preventDefault();
    byId('search').select();
  }
});

document.querySelector('.skip').addEventListener('click', event => {
  event.preventDefault();
  byId('main').focus();
});
addEventListener('hashchange', go);
onChange(draw);
onScroll(draw);
onEvent(e => view.event?.(e));
view = cellView;
await start();
go();
