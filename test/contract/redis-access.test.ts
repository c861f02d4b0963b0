import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Bus } from '../../shared/bus/bus.ts';
import { redisBus } from '../../shared/bus/redis.ts';
import { feedChannel, globalFeed } from '../../shared/wire/sync/sync.ts';
import { type TestCa, testCa } from '../support/base/certificates.ts';
import { freePort } from '../support/base/free-port.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { type TestRedis, testRedisWith } from '../support/peers/redis.ts';
import { sharedService } from '../support/run/shared-services.ts';

const channel = feedChannel(globalFeed);
const buses: Bus[] = [];
afterEach(async () => {
  await Promise.all(buses.splice(0).map((bus) => bus.close()));
});

/** A bus that is in use: somebody listens, and something is published. */
function usedBus(url: string) {
  const log = keptLog();
  const bus = redisBus({ url, logger: log });
  buses.push(bus);
  const seen: string[] = [];
  void bus.subscribe(channel, (message) => seen.push(message));
  return { bus, log, seen };
}

async function delivers({ bus, seen }: ReturnType<typeof usedBus>): Promise<void> {
  await until(() => bus.isConnected, { what: 'the bus connects' });
  bus.publish(channel, 'x');
  await until(() => seen.includes('x'), { what: 'the message arrives' });
}

describe('a Redis that refuses', () => {
  let redis: TestRedis;
  let admin: Redis;
  beforeAll(async () => {
    redis = await testRedisWith([]);
    admin = new Redis(redis.url);
  });
  afterAll(async () => {
    admin?.disconnect();
    await redis?.stop();
  });

  const asUser = (user: string, password = 'pw') => redis.url.replace('://', `://${user}:${password}@`);

  it.each([
    ['channels', 'reset on >pw +@all', ['publish', 'subscribe']],
    ['PUBLISH', 'reset on >pw resetchannels &agent-trust:* +subscribe +unsubscribe', ['publish']],
    ['SUBSCRIBE', 'reset on >pw resetchannels &agent-trust:* +publish', ['subscribe']],
  ])(
    'a user without rights to %s is named once, and is well as soon as it has them',
    async (what, rules, of) => {
      const user = `without-${what}`;
      await admin.call('ACL', 'SETUSER', user, ...rules.split(' '));
      const used = usedBus(asUser(user));
      const logged = () =>
        used.log.lines.filter(({ fields }) => 'code' in fields && fields.code === 'NOPERM');
      const tries = async () =>
        Number(/cmdstat_subscribe:.*rejected_calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0);
      const second = async () => Number((await admin.time())[0]);
      await until(
        () => {
          used.bus.publish(channel, 'refused');
          return logged().length === of.length;
        },
        { what: 'the cause is named' },
      );
      expect(
        logged()
          .map(({ fields }) => (fields as { purpose: string }).purpose)
          .sort(),
      ).toEqual(of);
      for (const { fields } of logged())
        expect(JSON.stringify(fields)).toContain('ACL SETUSER <user> resetchannels &agent-trust:* +publish');
      expect(used.bus.isConnected).toBe(false);
      // Once: the others differ only in what is refused.
      if (what === 'channels') {
        const before = { tries: await tries(), lines: used.log.lines.length, second: await second() };
        await until(async () => (await second()) > before.second + 2, { what: 'two seconds pass' });
        // One a second, however late this looks.
        const [tried, passed] = [(await tries()) - before.tries, (await second()) - before.second];
        expect(tried).toBeLessThanOrEqual(passed + 1);
        expect(used.log.lines.length).toBe(before.lines);
      }
      expect(used.log.text()).not.toContain(user);

      const all = 'resetchannels &agent-trust:* +publish +subscribe +unsubscribe';
      await admin.call('ACL', 'SETUSER', user, ...all.split(' '));
      await until(
        () => {
          used.bus.publish(channel, 'granted');
          return used.bus.isConnected && used.seen.includes('granted');
        },
        { what: 'it is well again', timeoutMs: 60_000 },
      );
      expect(used.log.text()).toContain('is back');
    },
  );

  it.each([
    ['WRONGPASS', () => asUser('nobody', 'hunter2'), 'The user or password in REDIS_URL is wrong.'],
    ['WRONGPASS', () => asUser('default', 'hunter2'), 'The user or password in REDIS_URL is wrong.'],
  ])('names %s', async (code, url, meaning) => {
    await admin.config('SET', 'requirepass', 'right');
    const used = usedBus(url());
    await until(() => used.log.lines.length === 2, { what: 'the cause is named' });
    for (const { fields } of used.log.lines) expect(fields).toMatchObject({ code, meaning });
    expect(used.log.text()).not.toContain('hunter2');
    await admin.config('SET', 'requirepass', '');
  });

  it('names a password that is missing, and connections that are used up', async () => {
    await admin.config('SET', 'requirepass', 'right');
    const without = usedBus(redis.url);
    await until(() => without.log.lines.length === 2, { what: 'the cause is named' });
    for (const { fields } of without.log.lines) expect(fields).toMatchObject({ code: 'NOAUTH' });
    await admin.config('SET', 'requirepass', '');
    await admin.config('SET', 'maxclients', '1');
    const crowded = usedBus(redis.url);
    await until(() => crowded.log.text().includes('MAXCLIENTS'), { what: 'the cause is named' });
    await admin.config('SET', 'maxclients', '1000');
    await delivers(crowded);
    await delivers(without);
  });
});

describe('a Redis with TLS', () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let ca: TestCa;
  let other: TestCa;
  let redis: TestRedis;
  let tlsPort: number;
  beforeAll(async () => {
    folder = temporaryFolder();
    await sharedService('openssl');
    ca = testCa(folder.path);
    other = testCa(folder.path, 'other');
    const server = ca.issue('DNS:localhost', 'IP:::1');
    tlsPort = await freePort();
    redis = await testRedisWith([
      ...['--tls-port', String(tlsPort), '--tls-auth-clients', 'no', '--bind', '127.0.0.1', '::1'],
      ...['--tls-cert-file', server.cert, '--tls-key-file', server.key, '--tls-ca-cert-file', ca.file],
    ]);
  });
  afterAll(async () => {
    await redis?.stop();
    folder?.remove();
  });

  const url = (host: string, query: string) => `rediss://${host}:${tlsPort}/0${query}`;
  const root = () => `sslrootcert=${encodeURIComponent(ca.file)}`;

  it.each([
    ['a name of its certificate', 'localhost', () => `?${root()}`],
    ['an IPv6 address of its certificate', '[::1]', () => `?sslmode=verify-full&${root()}`],
    ['another address, where only the CA counts', '127.0.0.1', () => `?sslmode=verify-ca&${root()}`],
    ['the same, as psql reads require with a CA', '127.0.0.1', () => `?sslmode=require&${root()}`],
    ['nobody it knows, where that is allowed', '127.0.0.1', () => '?sslmode=require'],
  ])('is reached as %s', async (_what, host, query) => {
    await delivers(usedBus(url(host, query())));
  });

  it.each([
    ['of an unknown CA', 'localhost', () => '', /does not know the CA .* sslrootcert of REDIS_URL/],
    ['of another CA', 'localhost', () => `?sslrootcert=${other.file}`, /does not know the CA/],
    [
      'of another CA, without names',
      'localhost',
      () => `?sslmode=require&sslrootcert=${other.file}`,
      /the CA/,
    ],
    ['for another address', '127.0.0.1', () => `?${root()}`, /for another name or address/],
  ])('is not believed with a certificate %s, which is named', async (_what, host, query, meaning) => {
    const used = usedBus(url(host, query()));
    await until(() => used.log.lines.length === 2, { what: 'the cause is named' });
    for (const { fields } of used.log.lines)
      expect(fields).toMatchObject({ meaning: expect.stringMatching(meaning) });
    expect(used.bus.isConnected).toBe(false);
  });

  it('names a port that speaks no TLS', async () => {
    const used = usedBus(redis.url.replace('redis:', 'rediss:'));
    await until(() => used.log.lines.length === 2, { what: 'the cause is named' });
    expect(used.log.text()).toContain('waits for plain text and not for TLS');
  });

  it('names a port that speaks TLS alone', async () => {
    const used = usedBus(url('localhost', '').replace('rediss:', 'redis:'));
    await until(() => used.log.lines.length === 2, { what: 'the cause is named' });
    expect(used.log.text()).toContain('it may want TLS');
  });

  it('does not start with a file that holds no certificate', () => {
    const file = join(folder.path, 'empty.pem');
    writeFileSync(file, 'nothing');
    expect(() => usedBus(url('localhost', `?sslrootcert=${file}`))).toThrow(
      /which holds no certificate in PEM form/,
    );
  });
});
