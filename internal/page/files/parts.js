// Small parts that several views share.

import { h } from './dom.js';
import { escaped } from './api.js';
import { called } from './words.js';

// link returns a link. The title of a long link, which may be cut, has the full text.
export const link = (href, text, props) => h('a', { href, title: text.length > 24 ? text : null, ...props }, text);

// status returns a coloured mark with a text, so that colour alone carries no meaning.
export const status = (kind, text) => h('span', { class: `status ${kind}` }, text);

// meter returns a bar that shows how much of something is left.
export function meter(label, value, most, text, name = '') {
  const part = most > 0 ? Math.min(1, Math.max(0, value / most)) : 0;
  return h('div', {
    class: `meter ${name} ${part < 0.2 ? 'low' : ''}`, role: 'meter', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': most,
    'aria-valuenow': Math.round(Math.min(value, most)), 'aria-valuetext': text, vars: { '--part': part.toFixed(3) },
  }, h('span'));
}

export const lockLink = (path, text = path, props) => link(`#/lock${escaped(path)}`, text, { class: 'mono', ...props });
export const fileLink = (path, text = path) => link(`#/file${escaped(path)}`, text, { class: 'mono' });
export const sessionLink = (id, name) => link(`#/session/${encodeURIComponent(id)}`, called(name, id));

// waitCycles returns a note about sessions that wait for each other.
export const waitCycles = all => all.length > 0 && h('section', { class: 'card cycles', 'aria-labelledby': 'cycles' },
  h('h2', { id: 'cycles' }, all.length === 1 ? 'A cycle of waits' : `${all.length} cycles of waits`),
  all.map(({ links }) => h('p', { key: links.map(l => l.session + l.path).join() },
    links.map((l, i) => [sessionLink(l.session, l.session_name), i ? ', which waits for ' : ' waits for ', lockLink(l.path), ', held by ']),
    sessionLink(links[0].session, links[0].session_name), '.')),
  h('p', { class: 'quiet' }, 'Standby candidates wait like this, and one of them will release its lock. If none does, it is a deadlock.'));

// back links to the list that has the single thing shown.
export const back = (href, text) => h('nav', { class: 'back', 'aria-label': 'Back' }, link(href, `‹ ${text}`));
