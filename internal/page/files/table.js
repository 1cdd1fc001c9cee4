// A table of any length: only the visible rows are in the document. The whole window
// scrolls, as on any page.

import { byId, h } from './dom.js';

const SPARE = 8; // further rows at each edge

const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row')) || 32;

// table describes a table. columns are {name, class}; row(item) gives {key, cells,
// class}. The arrow keys move to the first link of a row.
export function table({ id, label, columns, items, row, empty }) {
  if (!items.length) return h('p', { class: 'empty', key: `${id}-empty` }, empty);
  const height = rowHeight();
  const [first, last] = inSight(id, items.length, height);
  return h('table', { id, key: id, class: 'long', 'aria-label': label, 'aria-rowcount': items.length + 1, onkeydown: keys },
    h('thead', null, h('tr', { 'aria-rowindex': 1 }, columns.map(c => h('th', { scope: 'col', class: c.class }, c.name)))),
    h('tbody', null,
      space('above', first * height, columns),
      items.slice(first, last).map((item, i) => {
        const { key, cells, class: name } = row(item, first + i);
        return h('tr', { key, class: name, 'aria-rowindex': first + i + 2, 'data-at': first + i },
          cells.map((cell, c) => h('td', { class: columns[c].class }, cell)));
      }),
      space('below', (items.length - last) * height, columns)));
}

function space(key, height, columns) {
  if (height <= 0) return null;
  return h('tr', { key, class: 'space', 'aria-hidden': true, vars: { '--height': `${height}px` } }, h('td', { colspan: columns.length }));
}

// inSight returns the first visible row, and the first row after the visible ones.
function inSight(id, length, height) {
  const body = byId(id)?.tBodies[0];
  const top = body ? -body.getBoundingClientRect().top : 0;
  const first = Math.min(Math.max(0, Math.floor(top / height) - SPARE), Math.max(0, length - 1));
  const rows = Math.ceil(innerHeight / height) + 2 * SPARE;
  return [first, Math.min(length, Math.max(first, Math.floor(top / height) - SPARE) + rows)];
}

// visible returns the visible rows of a table: the first, and one past the last.
export function visible(id) {
  const rows = byId(id)?.querySelectorAll('tr[data-at]');
  return rows?.length ? [Number(rows[0].dataset.at), Number(rows[rows.length - 1].dataset.at) + 1] : [0, 0];
}

const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 'page', PageUp: '-page', Home: '-all', End: 'all' };

// keys moves the focus from row to row.
function keys(event) {
  const step = STEPS[event.key];
  const row = event.target.closest?.('tr[data-at]');
  if (step === undefined || !row || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const total = Number(this.getAttribute('aria-rowcount')) - 1, height = rowHeight();
  const page = Math.max(1, Math.floor(innerHeight / height) - 6);
  const by = { page, '-page': -page, all: total, '-all': -total }[step] ?? step;
  const to = Math.min(total - 1, Math.max(0, Number(row.dataset.at) + by));
  const top = this.tBodies[0].getBoundingClientRect().top + to * height;
  if (top < 140) scrollBy(0, top - 140);
  else if (top + height > innerHeight - 40) scrollBy(0, top + height - innerHeight + 40);
  draw();
  this.querySelector(`tr[data-at="${to}"] a`)?.focus({ preventScroll: true });
}

let draw = () => {};
// onScroll calls the listener to redraw the view when other rows become visible.
export function onScroll(listener) {
  draw = listener;
  let asked = false;
  const soon = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; listener(); });
  };
  addEventListener('scroll', soon, { passive: true });
  addEventListener('resize', soon);
}
