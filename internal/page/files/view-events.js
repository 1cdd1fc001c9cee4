// The events as they arrive.

import { h } from './dom.js';
import { fileLink, lockLink } from './parts.js';
import { mine, store } from './store.js';
import { table } from './table.js';
import { count, details, happened, plural, timeOfDay } from './words.js';

let search = '', paused = null; // the events at the time of the pause

const where = e => (!e.path ? '' : e.type.startsWith('lock_') ? lockLink(e.path) : fileLink(e.path));

const what = e => h('span', { class: `kind ${e.type} ${e.reason ?? ''}` }, happened(e.type));

export const eventLine = e => h('li', { key: e.revision }, h('time', { class: 'quiet mono' }, timeOfDay(e.at)), what(e), h('span', { class: 'where' }, where(e)), h('span', { class: 'quiet rest' }, details(e)));

export const eventsView = {
  title: 'Events', every: 1000,
  enter() { paused = null; },
  draw(redraw) {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const all = (paused ?? store.events).filter(e => words.every(w => `${e.path ?? ''}\n${happened(e.type)}\n${details(e)}`.toLowerCase().includes(w)));
    const more = paused ? store.events.filter(e => e.revision > (paused[0]?.revision ?? 0)).length : 0;
    return [
      h('div', { class: 'head' }, h('h1', null, 'Events'), h('p', { class: 'verdict quiet' }, paused ? `Paused; ${plural(more, 'event')} since.` : `Live, up to revision ${count(store.revision)}.`)),
      h('div', { class: 'tools' },
        h('input', { id: 'search', type: 'search', 'aria-label': 'Search events by path, kind or session', placeholder: 'Search path, kind, session', autocomplete: 'off', spellcheck: 'false', value: search, oninput() { search = this.value; redraw(); } }),
        h('button', { type: 'button', 'aria-pressed': String(!!paused), onclick() { paused = paused ? null : [...store.events]; redraw(); } }, 'Pause')),
      table({
        id: 'events', label: 'Events, newest first', items: all, empty: store.events.length ? 'No event matches.' : `Nothing${mine(' that you may read')} has changed as far back as this replica remembers.`,
        columns: [{ name: 'Seen', class: 'time' }, { name: 'What', class: 'kind' }, { name: 'Path', class: 'path' }, { name: 'Details', class: 'wide' }, { name: 'Revision', class: 'number wide' }],
        row: e => ({ key: e.revision, cells: [h('span', { class: 'mono quiet' }, timeOfDay(e.at)), what(e), where(e) || details(e), e.path ? details(e) : '', h('span', { class: 'mono quiet' }, e.revision)] }),
      }),
    ];
  },
};
