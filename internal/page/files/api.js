// Calls to the replica that the page is from. The token, where there is one, lives
// in this tab's session storage and goes nowhere but into the header.

const base = new URL('..', location.href);
const KEY = 'stout-token';

// Failed is an answer that is none of success, or no answer at all: status 0.
export class Failed extends Error {
  constructor(status, problem, retryAfter) {
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

// clock is the cell's wall clock as the last answer has it, where it differs from the
// browser's by more than its second.
let skew = 0;
export const clock = () => Date.now() + skew;

// withoutMaster is when a call was last refused since there was no master.
let withoutMaster = -Infinity;

const PATIENCE = 10_000; // a replica without a master says so within half of that

// unanswered is a call that came to nothing: the replica is down, or stands still.
const unanswered = () => new Failed(0, { detail: 'the replica does not answer' });

// send makes a call; what is no success is thrown as Failed. A read that has no signal
// of its own is given up after a while.
export async function send(path, { headers, ...init } = {}) {
  const all = new Headers(headers);
  if (token.get()) all.set('Authorization', `Bearer ${token.get()}`);
  let response;
  try {
    const signal = init.method ? undefined : AbortSignal.timeout(PATIENCE);
    response = await fetch(new URL(path, base), { signal, cache: 'no-store', credentials: 'same-origin', redirect: 'error', ...init, headers: all });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw unanswered();
  }
  const date = Date.parse(response.headers.get('Date'));
  if (date) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (problem.code === 'no_master') withoutMaster = performance.now();
  throw new Failed(response.status, problem, Number(response.headers.get('Retry-After')) || 0);
}

// read is a read whose answer is JSON: linearizable, or, while there is no master,
// this replica's own. The answer has its revision and whether it may be out of date. A
// replica looks for a master for seconds: that is not waited for twice in a row.
export async function read(path) {
  let response, stale = performance.now() - withoutMaster < 500;
  try {
    if (!stale) response = await send(path);
  } catch (error) {
    if (error.code !== 'no_master') throw error;
    stale = true;
  }
  if (stale) response = await send(own(path));
  const body = await response.json().catch(() => { throw unanswered(); });
  return { body, stale, revision: Number(response.headers.get('Stout-Revision')) || 0 };
}

// LOCAL are what each replica answers by itself, and in one way only.
const LOCAL = /^v1\/(cell|history)/;

const own = path => (LOCAL.test(path) ? path : path + (path.includes('?') ? '&' : '?') + 'consistency=stale');

// final is whether the same read, asked again, is refused again.
export const final = error => error?.status >= 400 && error.status < 500 && error.status !== 429;

// change makes a call that changes something.
export const change = (method, path, body) =>
  send(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });

// escaped is a node's path in a URL.
export const escaped = path => path.split('/').map(encodeURIComponent).join('/');

export const query = values => new URLSearchParams(values).toString();
