// The files of a directory, and one file.

import { escaped, read } from './api.js';
import { h } from './dom.js';
import { back, fileLink, link, sessionLink } from './parts.js';
import { changed, mine, readDirectory, store } from './store.js';
import { table } from './table.js';
import { ago, bytes, timeOfDay } from './words.js';
import { fact } from './view-cell.js';

let prefix = '/', error;

export const filesView = {
  title: 'Files', every: 1000,
  enter(rest) {
    prefix = rest.endsWith('/') ? rest : `${rest}/`;
    error = undefined;
    readDirectory(prefix).catch(failure => { error = failure; changed(); });
  },
  tick: async () => { if (store.files.get(prefix)?.stale) await readDirectory(prefix).catch(() => {}); },
  draw() {
    const dir = store.files.get(prefix);
    const items = dir ? [...[...dir.dirs].sort().map(d => ({ dir: d })), ...[...dir.files.values()].sort((a, b) => (a.path < b.path ? -1 : 1))] : [];
    return [
      h('div', { class: 'head' }, h('h1', null, 'Files'), trail(prefix)),
      error && h('p', { class: 'error' }, error.message),
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
let news; // timer of the next reading

export const fileView = {
  title: () => path, every: 1000, under: 'files',
  enter(rest) {
    path = rest;
    file = failed = undefined;
    load();
  },
  event(e) { if (e.path === path) news ??= setTimeout(() => { news = undefined; load(); }, 100); },
  draw() {
    const dir = path.slice(0, path.lastIndexOf('/') + 1);
    return [
      back(`#/files${escaped(dir)}`, dir), h('div', { class: 'head' }, h('h1', { class: 'mono' }, path)),
      failed && h('p', { class: 'error' }, failed.status === 404 ? 'There is no such file.' : failed.message),
      file && [
        h('section', { class: 'card' }, h('dl', null,
          fact('Size', bytes(file.size)), fact('Generation', file.generation), fact('Revision', file.revision), fact('Instance', file.instance),
          fact('Changed', `${timeOfDay(file.modified_at)} (${ago(file.modified_at)} ago)${file.principal ? ` by ${file.principal}` : ''}`), fact('Created', timeOfDay(file.created_at)),
          file.session && [h('dt', null, 'Deleted with'), h('dd', null, sessionLink(file.session, ''))], fact('SHA-256', file.sha256, true))),
        h('section', { 'aria-label': 'Content' }, h('div', { class: 'over' }, h('h2', null, 'Content'), body.note && h('span', { class: 'quiet' }, body.note)),
          body.text ? h('pre', { tabindex: 0, 'aria-label': 'Content' }, body.text) : h('p', { class: 'empty' }, 'The file is empty.')),
      ],
    ];
  },
};

async function load() {
  const wanted = path;
  try {
    const got = await read(`v1/files${escaped(wanted)}?as=json`);
    if (wanted === path) [file, failed, body] = [got.body, undefined, content(got.body)];
  } catch (failure) {
    if (wanted === path) [file, failed] = [undefined, failure];
  }
  changed();
}

const SHOWN = 64 * 1024; // characters of a text; of a binary file, a sixteenth in bytes

// content returns a file's text, or a dump of its bytes.
function content(f) {
  if (f.content !== undefined) return { text: f.content.slice(0, SHOWN), note: f.content.length > SHOWN ? 'the beginning only' : '' };
  const raw = atob(f.content_base64 ?? ''), lines = [];
  for (let at = 0; at < Math.min(raw.length, SHOWN / 16); at += 16) {
    const part = [...raw.slice(at, at + 16)];
    lines.push(`${at.toString(16).padStart(6, '0')}  ${part.map(c => c.charCodeAt(0).toString(16).padStart(2, '0')).join(' ').padEnd(47)}  ${part.map(c => (c >= ' ' && c <= '~' ? c : '·')).join('')}`);
  }
  return { text: lines.join('\n'), note: raw.length > SHOWN / 16 ? 'binary; the beginning only' : 'binary' };
}
