// Calls to the replica that served the page. The token, if any, is kept in this tab's
// session storage and is sent only in the header.

const base = new URL('..', location.href);
const KEY = 'stout-token';

// Failed is an answer other than success; status 0 means that no answer arrived.
export class Failed extends Error {
  constructor(status, problem, retryAfter = 0) {
    super(problem.detail || problem.title || 'no answer');
    Object.assign(this, { status, problem, code: problem.code ?? '', retryAfter });
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? '',
  set(value) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
};

// clock returns the cell's wall clock, from the last answer if it differs from the
// browser's clock by more than the header's precision of a second allows.
let skew = 0;
export const clock = () => Date.now() + skew;

// withoutMaster is the time at which a call was last refused because there was no
// master.
let withoutMaster = -Infinity;

const PATIENCE = 10_000; // a replica without a master answers within half of this
const CHANGE = 30_000; // ms; a change may wait for a master, and then for a transfer

// unanswered returns the error of a call without an answer: the replica is down or hangs.
const unanswered = () => new Failed(0, { detail: 'the replica does not answer' });

const unknown = () => new Failed(0, { code: 'outcome_unknown', detail: 'the replica does not answer, so the outcome is unknown: see whether the change was made before you repeat it' });

const otherCaller = () => new Failed(0, { code: 'other_caller', detail: 'the token was changed' });

// send makes a call and throws Failed unless it succeeds. A call without a signal of its
// own times out. An answer to a read for another caller is dropped.
export async function send(path, { headers, ...init } = {}) {
  const all = new Headers(headers), own = token.get();
  if (own && !all.has('Authorization')) all.set('Authorization', `Bearer ${own}`);
  let response;
  try {
    const signal = AbortSignal.timeout(init.method ? CHANGE : PATIENCE);
    response = await fetch(new URL(path, base), { signal, cache: 'no-store', credentials: 'same-origin', redirect: 'error', ...init, headers: all });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw init.method ? unknown() : unanswered();
  }
  if (!init.method && own !== token.get()) throw otherCaller();
  const date = Date.parse(response.headers.get('Date'));
  if (date) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (problem.code === 'no_master') withoutMaster = performance.now();
  throw new Failed(response.status, problem, Number(response.headers.get('Retry-After')) || 0);
}

// read reads JSON: linearizably, or from this replica's own state while there is no
// master. It returns the revision and whether the answer may be stale. A replica looks
// for a master for seconds, so after a failure read does not wait for that again.
export async function read(path, headers) {
  const caller = token.get();
  let response, stale = performance.now() - withoutMaster < 500;
  try {
    if (!stale) response = await send(path, { headers });
  } catch (error) {
    if (error.code !== 'no_master') throw error;
    stale = true;
  }
  if (stale) response = await send(own(path), { headers });
  const body = await response.json().catch(() => { throw unanswered(); });
  if (caller !== token.get()) throw otherCaller();
  return { body, stale, revision: Number(response.headers.get('Stout-Revision')) || 0 };
}

// LOCAL matches reads that each replica always answers from its own state.
const LOCAL = /^v1\/(cell|events|history)/;

const own = path => (LOCAL.test(path) ? path : path + (path.includes('?') ? '&' : '?') + 'consistency=stale');

// inOrder returns a function that begins a reading. That returns a function, to call with
// the answer, which reports whether no later reading has had its answer.
export function inOrder() {
  let begun = 0, answered = 0;
  return () => {
    const own = ++begun;
    return () => own >= answered && (answered = own, true);
  };
}

// final reports whether repeating the read would fail again.
export const final = error => error?.status >= 400 && error.status < 500 && error.status !== 429;

// change makes a call that changes the cell, and returns the answer's JSON, if any.
export async function change(method, path, body) {
  const response = await send(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  return response.status === 204 ? {} : response.json().catch(() => { throw unknown(); });
}

// write writes a file that still has a revision.
export const write = (path, body, revision) =>
  send(`v1/files${escaped(path)}`, { method: 'PUT', body, headers: { 'If-Match': `"${revision}"` } });

// escaped escapes a path of a lock or file for a URL.
export const escaped = path => path.split('/').map(encodeURIComponent).join('/');

export const query = values => new URLSearchParams(values).toString();
