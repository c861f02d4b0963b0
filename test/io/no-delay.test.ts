import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DebianPostgres, makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import { until } from '../support/base/until.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { type TestRedis, testRedis } from '../support/peers/redis.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';
import { sharedService } from '../support/run/shared-services.ts';

/** The ports of both ends of each connected TCP socket of a process, and TCP_NODELAY as the kernel has it. */
const script = `
import ctypes, json, os, socket, sys
system = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
handle = os.pidfd_open(pid)
found = []
for name in os.listdir(f'/proc/{pid}/fd'):
    try:
        if not os.readlink(f'/proc/{pid}/fd/{name}').startswith('socket:'):
            continue
    except FileNotFoundError:
        continue
    pidfd_getfd = 438
    copy = system.syscall(pidfd_getfd, handle, int(name), 0)
    if copy < 0:
        if ctypes.get_errno() == 9:
            continue
        raise OSError(ctypes.get_errno(), 'pidfd_getfd')
    with socket.socket(fileno=copy) as one:
        if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
            continue
        try:
            far = one.getpeername()[1]
        except OSError:
            continue
        found.append({'near': one.getsockname()[1], 'far': far,
                      'noDelay': one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0})
print(json.dumps(found))
`;

interface Connection {
  readonly near: number;
  readonly far: number;
  readonly noDelay: boolean;
}

async function connectionsOf(pid: number): Promise<readonly Connection[]> {
  const python = await sharedService('python3');
  const { stdout } = await promisify(execFile)(python, ['-c', script, String(pid)]);
  return JSON.parse(stdout);
}

let server: DebianPostgres;
let redis: TestRedis;
let receiver: Receiver;
let world: Installation;
let controlPlane: Running;
/** Both ways to serve HTTP. */
const sidecars: Running[] = [];

beforeAll(async () => {
  server = await testDebianPostgres();
  redis = await testRedis();
  receiver = await startReceiver();
  world = await installation(await bundledPrograms(), {
    databaseUrl: await makeOwnedDatabase(server.url),
    redisUrl: redis.url,
    env: { WEBHOOK_ALLOW_PRIVATE: '1' },
  });
  controlPlane = await world.startControlPlane();
  for (const SIDECAR_HTTP of ['uws', 'node']) sidecars.push(await world.startSidecar({ SIDECAR_HTTP }));
});
afterAll(async () => {
  await world?.close();
  await receiver?.close();
  await redis?.stop();
  await server?.stop();
});

const portOf = (url: string): number => Number(new URL(url).port);

/**
 * What is open between the two meanwhile, once there is any: that each sends at once. A connection that is
 * just made may be found before its program has set it so, hence a second look.
 */
async function sendAtOnce(
  one: Running,
  { far, near }: { readonly far?: string; readonly near?: string },
): Promise<void> {
  let found: readonly Connection[] = [];
  const looked = async (): Promise<boolean> => {
    found = (await connectionsOf(one.program.pid)).filter(
      (each) =>
        (far === undefined || each.far === portOf(far)) && (near === undefined || each.near === portOf(near)),
    );
    return found.length > 0 && found.every(({ noDelay }) => noDelay);
  };
  await until(looked, { what: `connections of ${one.origin}, each of which sends at once` });
}

it('sends at once to PostgreSQL and to Redis', async () => {
  await sendAtOnce(controlPlane, { far: server.url });
  await sendAtOnce(controlPlane, { far: redis.url });
  for (const sidecar of sidecars) await sendAtOnce(sidecar, { far: redis.url });
});

it('sends at once from a sidecar to its control plane, and back', async () => {
  for (const sidecar of sidecars) await sendAtOnce(sidecar, { far: controlPlane.origin });
  await sendAtOnce(controlPlane, { near: controlPlane.origin });
});

it('sends its answers at once', async () => {
  for (const sidecar of sidecars) {
    const socket = connect(portOf(sidecar.origin), '127.0.0.1');
    await once(socket, 'connect');
    await sendAtOnce(sidecar, { near: sidecar.origin });
    socket.destroy();
  }
});

it('sends webhooks at once', async () => {
  let finish = (): void => undefined;
  receiver.answer((response) => {
    finish = () => void response.writeHead(204).end();
  });
  const { status } = await world.api('POST', '/webhooks', { url: receiver.url, events: ['gate.created'] });
  expect(status).toBe(201);
  await world.createGate();
  await until(() => receiver.received.length > 0, { what: 'the webhook' });
  await sendAtOnce(controlPlane, { far: receiver.url });
  finish();
});
