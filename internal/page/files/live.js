// The stream of the cell's events, resumed after each failure. EventSource cannot send
// a token, so fetch reads the stream.

import { Failed, send } from './api.js';

const SILENCE = 15_000; // a stream sends something at least every 10 s
const PAUSES = [200, 500, 1000, 2000, 4000];

// follow reads events until stop. to.after is the last known revision; with 0 the
// stream begins with the next event.
export function follow(to) {
  let over = false, sleeping = false, abort = new AbortController(), wake = () => {}, failures = 0, was = false, brokenAt = 0;

  async function once() {
    const after = to.after();
    const headers = { Accept: 'text/event-stream', ...(after && { 'Last-Event-ID': String(after) }) };
    abort = new AbortController();
    let alarm;
    const heard = () => {
      clearTimeout(alarm);
      alarm = setTimeout(() => abort.abort(), SILENCE);
    };
    heard();
    try {
      const response = await send('v1/events', { headers, signal: abort.signal });
      failures = 0;
      was = true;
      to.state({ state: 'live', since: Date.now() });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '', fresh = !after;
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        heard();
        const parts = (rest + value).split('\n\n');
        rest = parts.pop();
        for (const part of parts) take(parse(part));
        if (parts.length && fresh) {
          fresh = false;
          to.began();
        }
      }
    } finally {
      clearTimeout(alarm);
    }
  }

  function take({ name, data }) {
    switch (name) {
      case 'bookmark': return to.upTo(data.revision);
      case 'compacted': return to.compacted(data.revision);
      case 'denied': return to.denied();
      default: return to.event(data);
    }
  }

  (async () => {
    while (!over) {
      let advice = 0, why = '';
      try {
        if (!sleeping) await once();
      } catch (error) {
        if (error instanceof Failed) {
          advice = error.retryAfter * 1000;
          why = error.message;
        }
      }
      if (over) return;
      if (sleeping) {
        to.state({ state: 'asleep', since: Date.now(), was: false });
        await new Promise(done => { wake = done; });
        continue;
      }
      brokenAt = failures === 0 ? Date.now() : brokenAt;
      to.state({ state: 'broken', since: brokenAt, was, why });
      const pause = Math.max(advice, PAUSES[Math.min(failures++, PAUSES.length - 1)]);
      await new Promise(done => setTimeout(done, pause * (0.8 + 0.4 * Math.random())));
    }
  })();

  return {
    stop() { over = true; abort.abort(); wake(); },
    sleep() { if (!sleeping) { sleeping = true; abort.abort(); } },
    wake() { sleeping = false; wake(); },
    asleep: () => sleeping,
  };
}

// parse reads one event of a stream.
function parse(text) {
  let name = 'message', data = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  return { name, data: data ? JSON.parse(data) : {} };
}
