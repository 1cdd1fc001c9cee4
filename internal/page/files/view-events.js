// Events as they come.

import { h } from './dom.js';
import { fileLink, lockLink } from './parts.js';
import { mine, store } from './store.js';
import { table } from './table.js';
import { count, happened, plural, timeOfDay, told } from './words.js';

let search = '', held = null; // what was there when it was held up

const where = e => (!e.path ? '' : e.type.startsWith('lock_') ? lockLink(e.path) : fileLink(e.path));

const what = e => h('span', { class: `kind ${e.type} ${e.reason ?? ''}` }, happened(e.type));

export const eventLine = e => h('li', { key: e.revision }, h('time', { class: 'quiet mono' }, timeOfDay(e.at)), what(e), h('span', { class: 'where' }, where(e)), h('span', { class: 'quiet rest' }, told(e)));

export const eventsView = {
  title: 'Events', every: 1000,
  enter() { held = null; },
  draw(redraw) {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const all = (held ?? store.events).filter(e => words.every(w => `${e.path ?? ''}\n${happened(e.type)}\n${told(e)}`.toLowerCase().includes(w)));
    const more = held ? store.events.filter(e => e.revision > (held[0]?.revision ?? 0)).length : 0;
    return [
      h('div', { class: 'head' }, h('h1', null, 'Events'), h('p', { class: 'verdict quiet' }, held ? `Held up; ${plural(more, 'event')} since.` : `As they come, up to revision ${count(store.revision)}.`)),
      h('div', { class: 'tools' },
        h('input', { id: 'search', type: 'search', 'aria-label': 'Search events by path, kind or session', placeholder: 'Search path, kind, session', autocomplete: 'off', spellcheck: 'false', value: search, oninput() { search = this.value; redraw(); } }),
        h('button', { type: 'button', 'aria-pressed': String(!!held), onclick() { held = held ? null : [...store.events]; redraw(); } }, 'Hold up')),
      table({
        id: 'events', label: 'Events, newest first', items: all, empty: store.events.length ? 'No event is as you ask.' : `Nothing${mine(' that you may read')} has changed since the page was opened.`,
        columns: [{ name: 'Seen', class: 'time' }, { name: 'What', class: 'kind' }, { name: 'Path', class: 'path' }, { name: 'Who', class: 'wide' }, { name: 'Revision', class: 'number wide' }],
        row: e => ({ key: e.revision, cells: [h('span', { class: 'mono quiet' }, timeOfDay(e.at)), what(e), where(e) || told(e), e.path ? told(e) : '', h('span', { class: 'mono quiet' }, e.revision)] }),
      }),
    ];
  },
};
