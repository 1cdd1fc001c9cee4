// Actions. Each shows its effect and asks for confirmation.

import { change, escaped, query } from './api.js';
import { byId, h, render } from './dom.js';
import { note } from './store.js';
import { afterRelease, freed } from './words.js';

let current; // the draw function of the action that was asked for last

// ask shows what an action will do, and runs it if the user confirms. If the user closes
// the dialog while the action runs, a note shows its outcome.
export function ask({ title, says, verb, run, done }) {
  const dialog = byId('dialog');
  let busy = false, error = '';
  const shown = () => dialog.open && current === draw;
  const draw = () => render(dialog,
    h('h2', { id: 'dialog-title' }, title),
    says.map(line => h('p', null, line)),
    error && h('p', { class: 'error', role: 'alert' }, error),
    h('div', { class: 'buttons' },
      h('button', { type: 'button', onclick: () => dialog.close(), autofocus: true, disabled: busy }, 'Cancel'),
      h('button', { type: 'button', class: 'danger', disabled: busy, onclick: go }, busy ? 'In progress…' : verb)));
  async function go() {
    busy = true;
    error = '';
    draw();
    try {
      await run();
      if (shown()) dialog.close();
      note('good', done, { lasts: 15_000 });
    } catch (failure) {
      error = failure.message;
      busy = false;
      if (shown()) draw();
      else note('bad', `${title} No success was reported: ${error}`);
    }
  }
  current = draw;
  draw();
  dialog.showModal();
}

const path = (...parts) => parts.map(encodeURIComponent).join('/');

// transfer makes another replica the master.
export const transfer = (from, to) => ask({
  title: `Make ${to} the master?`,
  says: [
    `${from ?? 'The current master'} ends its office and ${to} takes over. Calls wait until then, usually a few tenths of a second.`,
    'Sessions, locks and queue positions stay. Each session gets its full ttl again.',
  ],
  verb: `Make ${to} the master`,
  run: () => change('POST', 'v1/cell/transfer', { to }),
  done: `${to} was asked to be the master.`,
});

// release releases one hold of a lock by force.
export const release = (lock, holder, name) => ask({
  title: `Release ${lock.path} by force?`,
  says: [
    `${name} loses ${lock.path}, which it holds ${holder.mode === 'shared' ? 'shared' : 'exclusively'}, with token ${holder.token}.`,
    'Its program is not asked and may continue as if it had the lock. Only services that check fencing tokens refuse it.',
    afterRelease(lock, lock.holders.length - 1 + (lock.more_holders ?? 0)),
  ],
  verb: 'Release by force',
  async run() {
    const { released } = await change('DELETE', `v1/locks${escaped(lock.path)}?${query({ session: holder.session, handle: holder.handle, token: holder.token, by_force: true })}`);
    if (!released) throw new Error('This grant had already ended; the lock may have a new holder.');
  },
  done: `${lock.path} was released by force.`,
});

// endSession closes another program's session.
export const endSession = (session, name) => ask({
  title: `End ${name}?`,
  says: [
    freed(session.holds),
    `${session.waits.length ? `It loses its ${session.waits.length === 1 ? 'queue position' : `${session.waits.length} queue positions`}. ` : ''}Its ephemeral files are deleted.`,
    'Its program is not asked. It learns of the end with its next call; until then it may continue as if it had its locks.',
  ],
  verb: 'End the session',
  run: () => change('DELETE', `v1/${path('sessions', session.id)}`),
  done: `${name} was ended.`,
});
