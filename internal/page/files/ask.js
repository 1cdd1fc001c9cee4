// Actions: each says what it will do, and is asked for once more.

import { change } from './api.js';
import { byId, h, render } from './dom.js';
import { note } from './store.js';
import { freed, heirs } from './words.js';

// ask shows what an action will do, and does it when that is confirmed.
export function ask({ title, says, verb, run, done }) {
  const dialog = byId('dialog');
  let busy = false, error = '';
  const draw = () => render(dialog,
    h('h2', { id: 'dialog-title' }, title),
    says.map(line => h('p', null, line)),
    error && h('p', { class: 'error', role: 'alert' }, error),
    h('div', { class: 'buttons' },
      h('button', { type: 'button', onclick: () => dialog.close(), autofocus: true, disabled: busy }, 'Cancel'),
      h('button', { type: 'button', class: 'danger', disabled: busy, onclick: go }, busy ? 'Under way…' : verb)));
  async function go() {
    busy = true;
    error = '';
    draw();
    try {
      await run();
      dialog.close();
      note('good', done, { lasts: 15_000 });
    } catch (failure) {
      error = failure.message;
      busy = false;
      draw();
    }
  }
  draw();
  dialog.showModal();
}

const path = (...parts) => parts.map(encodeURIComponent).join('/');

// transfer hands mastership over.
export const transfer = (from, to) => ask({
  title: `Make ${to} the master?`,
  says: [
    `${from ?? 'The present master'} ends its office and ${to} takes over. Calls wait meanwhile, for some tenths of a second as a rule.`,
    'Sessions, locks and places in queues stay. Each session gets its whole ttl anew.',
  ],
  verb: `Make ${to} the master`,
  run: () => change('POST', 'v1/cell/transfer', { to }),
  done: `${to} was asked to be the master.`,
});

// release takes a lock from one of its holders.
export const release = (lock, holder, name) => ask({
  title: 'Release by force?',
  says: [
    `${name} loses ${lock.path}, which it holds ${holder.mode === 'shared' ? 'shared' : 'alone'}, by token ${holder.token}.`,
    'Its program is not asked, and may go on as if it had the lock. Only what checks fencing tokens keeps it out.',
    heirs(lock, lock.holders.length - 1 + (lock.more_holders ?? 0)),
  ],
  verb: 'Release by force',
  run: () => change('DELETE', `v1/locks${lock.path.split('/').map(encodeURIComponent).join('/')}?${new URLSearchParams({ session: holder.session, handle: holder.handle, token: holder.token, by_force: true })}`),
  done: `${lock.path} was released by force.`,
});

// endSession closes somebody's session.
export const endSession = (session, name) => ask({
  title: `End ${name}?`,
  says: [
    freed(session.holds),
    `${session.waits.length ? `Its ${session.waits.length === 1 ? 'place in a queue goes' : `${session.waits.length} places in queues go`}. ` : ''}Files that end with it are deleted.`,
    'Its program is not asked. It learns of it with its next call, and may go on until then as if it had its locks.',
  ],
  verb: 'End the session',
  run: () => change('DELETE', `v1/${path('sessions', session.id)}`),
  done: `${name} was ended.`,
});
