// An overview of the cell, and its members.

import { transfer } from './ask.js';
import { h } from './dom.js';
import { link, meter, status } from './parts.js';
import { hung, mine, store } from './store.js';
import { bytes, count, lasting, memberTolerance, plural, timeOfDay, tolerance } from './words.js';
import { eventLine } from './view-events.js';

// since returns the age of the cell's answer; the spans in the answer have run on by it.
const since = () => performance.now() - store.cellAt;

// cutOff reports whether a replica answers but has no contact with the master in office:
// it holds no promise, although each round of the lease renews promises.
const cutOff = ({ master, lease }, r) => !!master && lease.held && r.healthy && r.id !== master.id && !r.promise && r.last_contact_ms > lease.term_ms;

// masterless describes what a replica without a master knows. Only a replica that reaches
// all others knows that the cell has no master.
function masterless({ replicas }) {
  const away = replicas.filter(r => !r.healthy).map(r => r.id);
  if (!away.length) return 'No master is in office: nothing can be locked or changed until there is one.';
  return `This replica reaches no master; others may have one. It does not reach ${away.join(' and ')}.`;
}

// verdict returns the state of the cell: a kind of mark and a sentence.
export function verdict() {
  const { cell, members } = store;
  if (!cell) return ['wait', store.cellError ? store.cellError.message : 'Loading the cell…'];
  const lost = why => ['bad', `State unknown: ${why}. The page shows the state at ${timeOfDay(store.cellSeen)}.`];
  if (hung()) return lost('this replica does not answer');
  if (store.cellError) return lost(store.cellError.status ? store.cellError.message : 'this replica does not answer');
  const unhealthy = cell.replicas.filter(r => !r.healthy || cutOff(cell, r)).map(r => r.id);
  const more = members ? tolerance(members.tolerates) : '';
  if (!cell.master) return ['bad', masterless(cell)];
  if (unhealthy.length) return [members?.tolerates ? 'warn' : 'bad', `${unhealthy.join(' and ')} ${unhealthy.length === 1 ? 'is' : 'are'} unhealthy. ${more}`];
  if (members && members.tolerates === 0 && cell.replicas.length > 1) return ['warn', `All replicas are healthy. ${more}`];
  return ['good', `All replicas are healthy. ${more}`];
}

export const cellView = {
  title: 'Cell', pace: 500, every: 100,
  draw() {
    const { cell } = store;
    const [kind, says] = verdict();
    if (!cell) return [h('h1', null, 'Cell'), h('p', { class: 'verdict' }, status(kind, says))];
    return [
      h('div', { class: 'head' }, h('h1', null, cell.cell), h('p', { class: 'verdict' }, status(kind, says))),
      h('div', { class: `glance ${store.cellError || hung() ? 'old' : ''}` }, office(cell), figures(cell)),
      replicas(cell),
      h('section', { 'aria-labelledby': 'lately' },
        h('div', { class: 'over' }, h('h2', { id: 'lately' }, 'Recent events'), link('#/events', 'All events')),
        store.events.length
          ? h('ul', { class: 'lines' }, store.events.slice(0, 8).map(eventLine))
          : h('p', { class: 'empty' }, `Nothing${mine(' that you may read')} has changed as far back as this replica remembers.`)),
    ];
  },
};

function office(cell) {
  const { lease, master, epoch } = cell;
  const left = lease.held ? Math.max(0, lease.remaining_ms - since()) : 0;
  return h('section', { class: 'card office', 'aria-labelledby': 'office' },
    h('div', { class: 'over' }, h('h2', { id: 'office' }, 'Master'), h('span', { class: 'quiet small' }, cell.access === undefined ? '' : cell.access ? 'access on' : 'access off', cell.level ? ` · level ${cell.level}` : '')),
    h('p', { class: 'large' }, master ? master.id : 'none', h('span', { class: 'quiet' }, `epoch ${epoch}`)),
    meter('Lease of the master', left, lease.term_ms, lease.held ? `${lasting(left)} of ${lasting(lease.term_ms)}` : 'no lease', 'lease'),
    h('p', { class: 'quiet small' }, lease.held
      ? ['Lease: ', h('b', null, lasting(left)), ` of ${lasting(lease.term_ms)} left, renewed ${lasting(lease.renewed_ago_ms + since())} ago`]
      : 'No lease is held.'));
}

function figures(cell) {
  const figure = (name, n, to, more) => h('a', { class: 'figure', href: to }, h('span', { class: 'n' }, n === undefined ? '–' : count(n)), h('span', { class: 'quiet' }, name, more && ` · ${more}`));
  return h('section', { class: 'figures', 'aria-label': 'Counts' },
    figure('sessions', cell.sessions, '#/sessions'),
    figure('locks', cell.locks, '#/locks'),
    figure('waiting', cell.waiters, '#/locks?show=waiting'),
    figure('files', cell.files, '#/files/', cell.content_bytes ? bytes(cell.content_bytes) : ''));
}

function replicas(cell) {
  const most = Math.max(...cell.replicas.map(r => r.applied_index));
  const release = new Map(store.members?.members.map(m => [m.id, m.version]));
  const old = store.cellError || hung();
  const may = store.caller.operate && cell.replicas.length > 1 && !old;
  return h('section', { 'aria-labelledby': 'replicas' },
    h('h2', { id: 'replicas' }, 'Replicas'),
    h('table', { class: 'short' },
      h('thead', null, h('tr', null,
        ['Replica', 'State', 'Behind'].map(name => h('th', { scope: 'col' }, name)), h('th', { scope: 'col', class: 'wide' }, 'Promise'),
        h('th', { scope: 'col', class: 'wide' }, 'Release'), h('th', { scope: 'col', class: 'wide' }, 'Address'),
        may && h('th', { scope: 'col' }, h('span', { class: 'unseen' }, 'Action')))),
      h('tbody', null, cell.replicas.map(r => h('tr', { key: r.id },
        h('th', { scope: 'row' }, r.id, r.role === 'master' && h('span', { class: 'tag' }, 'master'), r.role === 'nonvoter' && h('span', { class: 'tag plain' }, 'no vote')),
        h('td', null, old ? status('wait', r.healthy ? 'was healthy' : 'was silent') : cutOff(cell, r) ? status('bad', `no contact with the master for ${lasting(r.last_contact_ms + since())}`) : r.healthy ? status('good', 'healthy') : status('bad', `silent for ${lasting(r.last_contact_ms + since())}`)),
        h('td', { class: 'number' }, !r.healthy ? 'unknown' : most - r.applied_index ? plural(most - r.applied_index, 'entry', 'entries') : 'up to date'),
        h('td', { class: 'wide' }, promise(r)),
        h('td', { class: 'wide mono' }, release.get(r.id) || '–'),
        h('td', { class: 'wide mono' }, r.url),
        may && h('td', { class: 'act' }, r.role !== 'master' && r.healthy && !cutOff(cell, r) && r.role !== 'nonvoter' &&
          h('button', { type: 'button', class: 'quietly', onclick: () => transfer(cell.master?.id, r.id) }, 'Make master…', h('span', { class: 'unseen' }, ` ${r.id}`))))))));
}

function promise(r) {
  if (!r.promise) return h('span', { class: 'quiet' }, '–');
  const left = Math.max(0, r.promise.remaining_ms - since());
  return h('span', { class: 'promise' },
    meter(`Promise of ${r.id} to ${r.promise.to}`, left, Math.max(store.cell.lease.term_ms, r.promise.remaining_ms), `${lasting(left)} left`),
    h('span', { class: 'quiet small' }, `to ${r.promise.to}`));
}

export const membersView = {
  title: 'Members', pace: 2000, every: 1000,
  draw() {
    const { members } = store;
    if (!members) return [h('h1', null, 'Members'), h('p', { class: 'empty' }, 'Loading the members…')];
    return [
      h('div', { class: 'head' }, h('h1', null, 'Members'), h('p', { class: 'verdict' }, memberTolerance(members), ' ', h('span', { class: 'quiet' }, 'Cell ', h('code', null, members.cell_id)))),
      h('div', { class: 'cards' }, members.members.map(m => h('section', { class: 'card', key: m.id + m.directory, 'aria-label': `Replica ${m.id}` },
        h('div', { class: 'over' }, h('h2', null, m.id), m.role === 'master' && h('span', { class: 'tag' }, 'master'),
          m.healthy ? status('good', 'healthy') : status('bad', m.version ? 'no contact with a master' : 'does not answer')),
        h('dl', null,
          fact('Role', m.suffrage === 'voter' ? 'voter' : 'no vote'),
          fact('Log', !m.healthy ? 'unknown' : m.behind ? `${plural(m.behind, 'entry', 'entries')} behind` : `up to date, at entry ${count(m.applied_index)}`),
          fact('Release', m.version || 'unknown'),
          fact('Member since', timeOfDay(m.since)),
          fact('API', m.url, true), fact('Raft', m.raft_addr, true), fact('Directory', m.directory, true))))),
    ];
  },
};

export const fact = (name, value, mono) => [h('dt', null, name), h('dd', { class: mono && 'mono' }, value)];
