// The files of a directory, and one file.

import { escaped, final, inOrder, query, read, write } from './api.js';
import { h } from './dom.js';
import { back, fileLink, link, sessionLink } from './parts.js';
import { changed, mine, note, readDirectory, store } from './store.js';
import { table } from './table.js';
import { ago, bytes, plural, timeOfDay } from './words.js';
import { fact } from './view-cell.js';

let prefix = '/', error;

export const filesView = {
  title: 'Files', every: 1000,
  enter(rest) {
    prefix = rest.endsWith('/') ? rest : `${rest}/`;
    error = undefined;
    const dir = store.files.get(prefix);
    if (dir) dir.stale = true;
  },
  async tick() {
    const wanted = prefix, dir = store.files.get(prefix);
    if (final(error) || (dir?.read && !dir.stale)) return;
    const failure = await readDirectory(wanted).then(() => undefined, e => e);
    if (wanted === prefix) error = failure;
    changed();
  },
  draw() {
    const dir = store.files.get(prefix);
    const items = dir ? [...[...dir.dirs].sort().map(d => ({ dir: d })), ...[...dir.files.values()].sort((a, b) => (a.path < b.path ? -1 : 1))] : [];
    return [
      h('div', { class: 'head' }, h('h1', null, 'Files'), trail(prefix)),
      error && h('p', { class: 'error' }, error.message),
      dir?.more && h('p', { class: 'quiet' }, `The page shows only the first ${plural(items.length, 'entry', 'entries')}. The command stout ls lists all.`),
      table({
        id: 'files', label: `Files in ${prefix}`, items, empty: dir?.read ? `There is no file here${mine(' that you may read')}.` : 'Reading the files…',
        columns: [{ name: 'Name', class: 'path' }, { name: 'Size', class: 'number' }, { name: 'Generation', class: 'number' }, { name: 'Changed', class: 'number' }, { name: 'Session', class: 'wide' }, { name: 'By', class: 'wide' }],
        row: item => (item.dir
          ? { key: item.dir, class: 'dir', cells: [link(`#/files${escaped(item.dir)}`, item.dir.slice(prefix.length), { class: 'mono' }), '', '', '', '', ''] }
          : { key: item.path, cells: [fileLink(item.path, item.path.slice(prefix.length)), bytes(item.size), item.generation, h('span', { title: item.modified_at }, ago(item.modified_at)), item.session ? sessionLink(item.session, '') : '', item.principal ?? ''] }),
      }),
    ];
  },
};

// trail links to the directories above.
function trail(path) {
  const parts = path.split('/').slice(1, -1);
  return h('nav', { class: 'trail mono', 'aria-label': 'Directories' }, link('#/files/', '/'),
    parts.map((part, i) => link(`#/files${escaped(`/${parts.slice(0, i + 1).join('/')}/`)}`, `${part}/`)));
}

let path, file, failed, body;
let may = false; // a rule lets the caller write the file
let edit; // the text that the user edits, with the revision that it came from
let news; // timer of the next reading
let known = 0; // revision of the last answer
const loads = inOrder();

export const fileView = {
  title: () => path, every: 1000, under: 'files',
  enter(rest) {
    if (rest !== path || edit?.principal !== store.caller?.principal) edit = undefined;
    path = rest;
    file = failed = undefined;
    known = 0;
    loads()();
    may = false;
    const wanted = path;
    read(`v1/access/check?${query({ path })}`).then(got => { if (wanted === path) may = got.body.write.allowed; changed(); }, () => {});
    load();
  },
  async tick() { if (failed && !final(failed)) await load(); },
  event(e) {
    if (!e.type) known = 0; // after missed events, perhaps of a lost state
    if (!e.path || e.path === path) news ??= setTimeout(() => { news = undefined; load(); }, 100);
  },
  draw() {
    const dir = path.slice(0, path.lastIndexOf('/') + 1);
    return [
      back(`#/files${escaped(dir)}`, dir), h('div', { class: 'head' }, h('h1', { class: 'mono' }, path)),
      failed && h('p', { class: 'error' }, failed.status === 404 ? 'There is no such file.' : failed.message),
      file && h('section', { class: 'card' }, h('dl', null,
        fact('Size', bytes(file.size)), fact('Generation', file.generation), fact('Revision', file.revision), fact('Instance', file.instance),
        fact('Changed', `${timeOfDay(file.modified_at)} (${ago(file.modified_at)} ago)${file.principal ? ` by ${file.principal}` : ''}`), fact('Created', timeOfDay(file.created_at)),
        file.session && [h('dt', null, 'Deleted with'), h('dd', null, sessionLink(file.session, ''))], fact('SHA-256', file.sha256, true))),
      (file || edit) && h('section', { key: 'content', 'aria-label': 'Content' }, h('div', { class: 'over' }, h('h2', null, 'Content'), file && body.note && h('span', { class: 'quiet' }, body.note),
        (may || store.cell?.access === false) && !edit && !body.note && !file.session && h('button', { type: 'button', class: 'quietly', onclick: begin }, 'Edit…')),
        edit ? editor() : body.text ? h('pre', { tabindex: 0, 'aria-label': 'Content' }, body.text) : h('p', { class: 'empty' }, 'The file is empty.')),
    ];
  },
};

// begin begins an edit. A text area turns all line ends into \n; save restores the file's.
function begin() {
  edit = { text: file.content.replaceAll('\r\n', '\n'), ends: file.content.includes('\r') ? '\r\n' : '\n', revision: file.revision, principal: store.caller.principal };
  changed();
}

// editor edits the content. It writes only if the file still has the revision that the
// text came from.
function editor() {
  return h('form', { onsubmit: save },
    h('textarea', { 'aria-label': 'Content', rows: 16, spellcheck: 'false', value: edit.text, oninput() { edit.text = this.value; } }),
    file && edit.revision !== file.revision && h('p', { class: 'error', role: 'alert' }, `The file has since changed, to revision ${file.revision}. Cancel, and edit the new content.`),
    edit.error && h('p', { class: 'error', role: 'alert' }, edit.error),
    h('div', { class: 'buttons' },
      h('button', { type: 'button', onclick() { edit = undefined; changed(); } }, 'Cancel'),
      h('button', { type: 'submit', disabled: edit.busy || edit.revision !== file?.revision }, 'Save')));
}

async function save(event) {
  event.preventDefault();
  const own = edit, wanted = path;
  Object.assign(own, { busy: true, error: '' });
  changed();
  try {
    await write(wanted, own.text.replaceAll('\n', own.ends), own.revision);
    if (edit === own) edit = undefined;
    note('good', `${wanted} was written.`, { lasts: 15_000 });
  } catch (failure) {
    Object.assign(own, { busy: false, error: failure.message });
    if (edit !== own) note('bad', `The change of ${wanted} was not confirmed: ${failure.message}`);
  }
  if (wanted === path) load();
}

async function load() {
  const wanted = loads();
  try {
    const got = await read(`v1/files${escaped(path)}?as=json`);
    if (!wanted() || got.revision < known) return;
    [file, failed, body, known] = [got.body, undefined, content(got.body), got.revision];
  } catch (failure) {
    if (wanted()) [file, failed] = [failure.status === 404 ? undefined : file, failure];
  }
  changed();
}

const SHOWN = 64 * 1024; // characters of a text; of a binary file, a sixteenth in bytes

// content returns a file's text, or a dump of its bytes.
function content(f) {
  if (f.content !== undefined) {
    const mixed = /\r(?!\n)/.test(f.content) || (f.content.includes('\r') && /(^|[^\r])\n/.test(f.content));
    return { text: f.content.slice(0, SHOWN), note: f.content.length > SHOWN ? 'the beginning only' : mixed ? 'line ends of several kinds' : '' };
  }
  const raw = atob(f.content_base64 ?? ''), lines = [];
  for (let at = 0; at < Math.min(raw.length, SHOWN / 16); at += 16) {
    const part = [...raw.slice(at, at + 16)];
    lines.push(`${at.toString(16).padStart(6, '0')}  ${part.map(c => c.charCodeAt(0).toString(16).padStart(2, '0')).join(' ').padEnd(47)}  ${part.map(c => (c >= ' ' && c <= '~' ? c : '·')).join('')}`);
  }
  return { text: lines.join('\n'), note: raw.length > SHOWN / 16 ? 'binary; the beginning only' : 'binary' };
}
