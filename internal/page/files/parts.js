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

// deadlocks returns an alarm about sessions that wait for each other.
export const deadlocks = all => all.length > 0 && h('section', { class: 'card alarm', 'aria-labelledby': 'deadlocks' },
  h('h2', { id: 'deadlocks' }, all.length === 1 ? 'Deadlock' : `${all.length} deadlocks`),
  all.map(({ links }) => h('p', { key: links.map(l => l.session + l.path).join() },
    links.map((l, i) => [sessionLink(l.session, l.session_name), i ? ', which waits for ' : ' waits for ', lockLink(l.path), l.token ? ', held by ' : ', behind ']),
    sessionLink(links[0].session, links[0].session_name), '.')),
  h('p', { class: 'quiet' }, 'These sessions wait for each other until one gives up or is ended.'));

// back links to the list that has the single thing shown.
export const back = (href, text) => h('nav', { class: 'back', 'aria-label': 'Back' }, link(href, `‹ ${text}`));
