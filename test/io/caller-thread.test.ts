import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { type CallerThread, callerThread } from '../../sidecar/replica/caller-thread.ts';
import { type Call, httpCaller } from '../../sidecar/replica/http-caller.ts';
import { replicaLimits } from '../../sidecar/replica/limits.ts';
import { type ListeningServer, listening } from '../support/base/listening.ts';
import { until } from '../support/base/until.ts';
import { useFolder } from '../support/base/use.ts';
import { sharedService } from '../support/run/shared-services.ts';

const usual: Call = {
  path: 'x',
  body: null,
  headers: {},
  bytesMax: 1_000_000,
  timeMsMax: 10_000,
  by: 'others',
};

const folder = useFolder();
let server: Server;
let service: ListeningServer;
let callers: CallerThread[];
let bodies: Buffer[];
let requests: IncomingMessage[];
let answer: (response: ServerResponse) => void;

beforeEach(async () => {
  bodies = [];
  requests = [];
  callers = [];
  answer = (response) => void response.end('{}');
  server = createServer((request, response) => {
    requests.push(request);
    // One that is broken off has no body.
    buffer(request).then(
      (body) => {
        bodies.push(body);
        answer(response);
      },
      () => undefined,
    );
  });
  service = await listening(server);
});
afterEach(async () => {
  await Promise.all(callers.map((caller) => caller.close()));
  await service.close();
});

function start(program?: string): CallerThread {
  const caller = callerThread({
    origin: service.origin,
    headers: { authorization: 'Bearer key' },
    logger: silentLogger,
    ...(program === undefined ? {} : { program }),
  });
  callers.push(caller);
  return caller;
}

/** A thread that does this with each message. */
async function programThat(statements: string): Promise<string> {
  const path = join(folder.path, 'thread.mjs');
  const text = `import { parentPort } from 'node:worker_threads';\nparentPort.on('message', ({ id, call }) => { ${statements} });\n`;
  await writeFile(path, text);
  return path;
}

/** Of all threads of this process: proc(5), the 19th field of `stat`. */
const nicenesses = (): number[] =>
  readdirSync('/proc/self/task').map((thread) => {
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
  });

const count = (numbers: readonly number[], wanted: number): number =>
  numbers.filter((each) => each === wanted).length;

describe('a call', () => {
  it('hands its bytes to the system in pieces, as one body of known length', async () => {
    const written: number[] = [];
    const write = Socket.prototype.write;
    // Watched in this thread: from outside, pieces look like one.
    const watch = vi.spyOn(Socket.prototype, 'write').mockImplementation(function (this: Socket, ...args) {
      written.push(args[0].length);
      return write.apply(this, args);
    });
    const caller = httpCaller({ origin: service.origin, headers: {} });
    const body = Buffer.alloc(5 * replicaLimits.bodyPieceBytes + 7, 'x');
    const { status } = await caller
      .attempt({ ...usual, body }, new AbortController().signal)
      .finally(() => watch.mockRestore());
    expect(status).toBe(200);
    expect(bodies).toEqual([body]);
    expect(requests[0]?.headers).toMatchObject({ 'content-length': String(body.length) });
    expect(requests[0]?.headers).not.toHaveProperty('transfer-encoding');
    expect(written.filter((bytes) => bytes === replicaLimits.bodyPieceBytes)).toHaveLength(5);
    expect(Math.max(...written)).toBe(replicaLimits.bodyPieceBytes);
  });
});

describe('the thread that calls the control plane', () => {
  it('sends bytes from shared memory as they are, and nothing of what lies beside them', async () => {
    const bytes = Buffer.from(new SharedArrayBuffer(2 * 1024 * 1024));
    for (let i = 0; i < bytes.length; i += 1) bytes[i] = i % 251;
    const body = bytes.subarray(1_000, 1_800_000);
    expect(await start().attempt({ ...usual, body })).toEqual({ status: 200, text: '{}' });
    expect(bodies[0]?.equals(body)).toBe(true);
  });

  it('copies bytes that are not shared, so that they may change at once', async () => {
    const bytes = Buffer.from('before what is sent after');
    const sent = start().attempt({ ...usual, body: bytes.subarray(7, 19) });
    bytes.fill(0);
    await sent;
    expect(bodies.map(String)).toEqual(['what is sent']);
  });

  it('brings back a text of any length with all of its characters', async () => {
    const text = 'é€𐍈'.repeat(50_000);
    answer = (response) => void response.end(text);
    expect((await start().attempt(usual)).text).toBe(text);
  });

  it('tells the code of an error of the network', async () => {
    await service.close();
    for (const body of [null, 'x', Buffer.alloc(3 * replicaLimits.bodyPieceBytes)]) {
      const call = start().attempt({ ...usual, body });
      await expect(call).rejects.toMatchObject({ name: 'CallFailed', code: 'ECONNREFUSED' });
    }
  });

  it('ends a cancelled call, also at the control plane', async () => {
    answer = () => undefined;
    const ending = new AbortController();
    const call = start().attempt(usual, ending.signal);
    await until(() => bodies.length === 1, { what: 'the control plane has the call' });
    const isGone = new Promise((resolve) => requests[0]?.socket.once('close', resolve));
    const reason = new Error('not wanted any more');
    ending.abort(reason);
    await expect(call).rejects.toBe(reason);
    await isGone;
  });

  it('begins no call that was ended before', async () => {
    await expect(start().attempt(usual, AbortSignal.abort(new Error('ended')))).rejects.toThrow('ended');
    expect(requests).toEqual([]);
  });

  it('gives up a call within its time', async () => {
    const caller = start();
    // How long a thread takes to start is not its time.
    await caller.attempt(usual);
    answer = () => undefined;
    await expect(caller.attempt({ ...usual, timeMsMax: 50 })).rejects.toThrow(/timeout/);
  });

  it('makes the next calls where one was broken off in the middle of its bytes', async () => {
    const caller = start();
    const body = Buffer.alloc(limits.ingestBodyBytesMax, 'x');
    const isHalf = new Promise<void>((resolve) => {
      server.once('request', (request: IncomingMessage) => {
        request.once('data', () => {
          request.socket.destroy();
          resolve();
        });
      });
    });
    const broken = expect(caller.attempt({ ...usual, body })).rejects.toThrow();
    await isHalf;
    await broken;
    expect((await caller.attempt({ ...usual, body })).status).toBe(200);
    expect(bodies.map((each) => each.equals(body))).toEqual([true]);
  });

  it('says when its bytes may change, and reads none of them after that, though it failed', async () => {
    // More than the system takes of it in advance.
    const body = new Uint8Array(new SharedArrayBuffer(64 * 1_048_576)).fill(0x61);
    const seen: Buffer[] = [];
    let request: IncomingMessage | undefined;
    const caller = start();
    // How long a thread takes to start is not its time.
    await caller.attempt(usual);
    server.removeAllListeners('request');
    server.on('request', (incoming: IncomingMessage) => {
      request = incoming;
      // Reads what the system has taken so far, and then no more.
      incoming.once('data', (bytes: Buffer) => {
        seen.push(bytes);
        incoming.pause();
      });
    });
    let isOver = false;
    const late = caller.attempt({ ...usual, body, timeMsMax: 2_000 }, undefined, () => {
      isOver = true;
      body.fill(0x62);
    });
    await expect(late).rejects.toThrow(/timeout/);
    expect([isOver, seen.length]).toEqual([true, 1]);
    const rest = must(request, 'it came').on('data', (bytes: Buffer) => seen.push(bytes));
    const ended = new Promise<void>((resolve) => rest.once('close', resolve));
    rest.on('error', () => undefined).resume();
    await ended;
    const all = Buffer.concat(seen);
    expect(all.byteLength).toBeLessThan(body.byteLength);
    expect(all.equals(Buffer.alloc(all.byteLength, 'a'))).toBe(true);
  });

  it('does not say so of a thread that was given up, nor of a call that was ended', async () => {
    let overs = 0;
    const onOver = () => {
      overs += 1;
    };
    const ending = start(await programThat('process.exit(1);'));
    await expect(ending.attempt(usual, undefined, onOver)).rejects.toThrow('has ended');
    answer = () => undefined;
    const signal = AbortSignal.timeout(50);
    await expect(start().attempt(usual, signal, onOver)).rejects.toThrow(/timeout/);
    expect(overs).toBe(0);
    answer = (response) => void response.writeHead(503).end('{}');
    expect((await start().attempt(usual, undefined, onOver)).status).toBe(503);
    expect(overs).toBe(1);
  });

  it('fails the calls of a thread that ends, and makes the next in another one', async () => {
    const caller = start(
      await programThat(
        `if (call.path === 'end') process.exit(1);
         else if (call.path !== 'silence') parentPort.postMessage({ kind: 'answered', id, answer: { status: 200, text: call.path } });`,
      ),
    );
    const waiting = caller.attempt({ ...usual, path: 'silence' });
    const ends = caller.attempt({ ...usual, path: 'end' });
    await expect(waiting).rejects.toThrow('has ended');
    await expect(ends).rejects.toThrow('has ended');
    expect(await caller.attempt({ ...usual, path: 'next' })).toEqual({ status: 200, text: 'next' });
  });

  it('replaces a thread that does not keep the time of its calls', async () => {
    const caller = start(
      await programThat(
        `if (call.path === 'hang') for (;;);
         parentPort.postMessage({ kind: 'answered', id, answer: { status: 200, text: call.path } });`,
      ),
    );
    await expect(caller.attempt({ ...usual, path: 'hang', timeMsMax: 100 })).rejects.toThrow('hangs');
    expect(await caller.attempt({ ...usual, path: 'next' })).toEqual({ status: 200, text: 'next' });
  });

  it('is not replaced where the whole process was stopped past the time of a call', async () => {
    let answerFirst: () => void = () => undefined;
    answer = (response) => {
      if (bodies.length > 1) response.end('second');
      else answerFirst = () => void response.end('first');
    };
    const timeMsMax = 3_000;
    const module = join(await sharedService('programs'), 'sidecar/replica/caller-thread.js');
    // Prints what became of two calls, and what was logged.
    const program = `
      import { callerThread } from ${JSON.stringify(module)};
      const say = (what) => process.stdout.write(what + '\\n');
      const error = (_, message) => say('logged: ' + message);
      const caller = callerThread({ origin: '${service.origin}', headers: {}, logger: { error } });
      const call = { path: 'x', body: 'x', headers: {}, bytesMax: 1_000, timeMsMax: ${timeMsMax}, by: 'others' };
      for (const turn of [1, 2])
        say(turn + ': ' + await caller.attempt(call).then(({ text }) => text, () => 'out of time'));
      await caller.close();`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const printed = text(child.stdout);
    await until(() => bodies.length === 1, { what: 'the first call is there' });
    child.kill('SIGSTOP');
    answerFirst();
    const stoppedAtMs = performance.now();
    const isLate = () => performance.now() - stoppedAtMs > timeMsMax + 2 * replicaLimits.callerGraceMs;
    await until(isLate, { what: 'it is stopped for longer than a thread may take' });
    child.kill('SIGCONT');
    // Whether the answer or the end of the time comes first is open. The thread is the same one.
    expect(await printed).toMatch(/^1: (?:first|out of time)\n2: second\n$/);
  });

  it.runIf(process.platform === 'linux')('is one step of niceness behind this one', async () => {
    const before = nicenesses();
    await start().attempt(usual);
    const own = getPriority();
    expect(count(nicenesses(), own + 1)).toBe(count(before, own + 1) + 1);
  });

  it('fails calls in flight when it is closed, and all later ones', async () => {
    answer = () => undefined;
    const caller = start();
    const call = caller.attempt(usual);
    await until(() => bodies.length === 1, { what: 'the control plane has the call' });
    const failure = expect(call).rejects.toThrow('were closed');
    await caller.close();
    await failure;
    await expect(caller.attempt(usual)).rejects.toThrow('are closed');
  });
});
