import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { followSigningKeys } from '../../control-plane/signing/follow-signing-keys.ts';
import type { SigningKeys } from '../../control-plane/signing/signing-keys.ts';
import { rotateSigningKey } from '../../control-plane/signing-keys/rotate-signing-key.ts';
import { inProcessBus } from '../../shared/bus/in-process.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { limits } from '../../shared/model/limits.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { feedChannel, globalFeed } from '../../shared/wire/sync/sync.ts';
import { signChange } from '../../shared/wire/sync/sync-signature.ts';
import { expectWithin, timeUntil } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { operatorCaller } from '../support/data/caller.ts';
import { startOwnApi } from '../support/service/api.ts';
import { type SecondControlPlane, secondControlPlane } from '../support/service/second-control-plane.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

describe('a replica that follows the signing keys', () => {
  let second: SecondControlPlane;
  let following: ReturnType<typeof followSigningKeys>;
  beforeEach(async () => {
    second = await secondControlPlane(api);
  });
  afterEach(async () => {
    await following.stop();
    await second.close();
  });

  const rotate = async () =>
    rotateSigningKey(api.deps, await operatorCaller(api.deps), { purpose: 'passport', isCompromised: true });
  const signsWith = () => second.deps.signingKeys.current('passport').kid;

  it('signs with the new key as soon as it is pushed', async () => {
    let looks = 0;
    const { signingKeys } = second.deps;
    const reload = () => signingKeys.reload().then(() => void looks++);
    following = followSigningKeys({ ...second.deps, signingKeys: { ...signingKeys, reload } });
    await until(() => looks === 1, { what: 'the first look, after which only a push is so quick' });
    await expectWithin(limits.signingKeysReadIntervalMs / 2, 'the second replica has heard', async () => {
      const { next } = await rotate();
      return timeUntil(() => signsWith() === next.kid, 'the second replica has heard');
    });
  });

  it('learns of it without a push too, by looking into the database', async () => {
    const deaf = inProcessBus(silentLogger);
    following = followSigningKeys({ ...second.deps, bus: deaf });
    const { next } = await rotate();
    await until(() => signsWith() === next.kid, { what: 'the second replica has looked' });
    await deaf.close();
  });
});

describe('following the signing keys', () => {
  /** Keys that count how often they are reloaded, on a bus of their own. */
  function setUp(reload: () => Promise<void>) {
    const { signingKeys } = api.deps;
    const said: string[] = [];
    const say = (_fields: object, message: string) => void said.push(message);
    const seen = { reloads: 0, all: signingKeys.all() };
    const keys: SigningKeys = {
      current: signingKeys.current,
      vouching: signingKeys.vouching,
      sound: signingKeys.sound,
      bad: () => [],
      all: () => seen.all,
      reload: async () => {
        seen.reloads += 1;
        await reload();
      },
    };
    const bus = inProcessBus(silentLogger);
    const following = followSigningKeys({
      sql: api.deps.sql,
      bus,
      signingKeys: keys,
      logger: { ...silentLogger, info: say, warn: say },
    });
    const publish = (kind: 'signing_key.put' | 'issuer.standing') => {
      const body =
        kind === 'signing_key.put'
          ? ({ kind, body: api.deps.signingKeys.all()[0] as VerificationKey } as const)
          : ({
              kind,
              body: {
                issuer: idDigest(api.deps.random.newId('iss', api.deps.clock.now())),
                standing: 'active',
              },
            } as const);
      const entry = signChange(
        signingKeys.current('sync'),
        { feedId: globalFeed, revision: 1, previous: '' },
        body,
      );
      bus.publish(feedChannel(globalFeed), JSON.stringify(entry));
    };
    return { following, bus, seen, said, publish };
  }

  it('says once that the keys cannot be read, and once that they can again', async () => {
    let isBroken = true;
    const { following, bus, seen, said, publish } = setUp(async () => {
      if (isBroken) throw new Error('connection refused');
    });
    for (let wanted = 1; wanted <= 3; wanted++) {
      await until(() => seen.reloads >= wanted, { what: `${wanted} reloads` });
      publish('signing_key.put');
    }
    isBroken = false;
    publish('signing_key.put');
    await until(() => said.length > 1, { what: 'the end of the trouble' });
    await following.stop();
    await bus.close();
    expect(said).toEqual([
      'the signing keys cannot be read; the last known ones stay in use',
      'the signing keys can be read again',
    ]);
  });

  it('says which keys have changed', async () => {
    const { following, bus, seen, said, publish } = setUp(async () => {
      seen.all = seen.all.map((key) => ({ ...key, compromised: !key.compromised }));
    });
    await until(() => said.length > 0, { what: 'a change' });
    publish('signing_key.put');
    await following.stop();
    await bus.close();
    expect(said).toContain('signing keys have changed');
  });

  it('does not look because of other changes, nor for each of a flood of pushes', async () => {
    const { following, bus, seen, publish } = setUp(async () => undefined);
    await until(() => seen.reloads === 1, { what: 'the first look' });
    for (let i = 0; i < 50; i++) publish('issuer.standing');
    for (let i = 0; i < 500; i++) publish('signing_key.put');
    await until(() => seen.reloads === 2, { what: 'one look for all' });
    await following.stop();
    publish('signing_key.put');
    await bus.close();
    expect(seen.reloads).toBeLessThanOrEqual(3);
  });
});

describe('rotating a signing key', () => {
  it('is done once it is committed, also where this replica cannot read it back', async () => {
    const said: string[] = [];
    const rotation = await rotateSigningKey(
      {
        ...api.deps,
        signingKeys: { ...api.deps.signingKeys, reload: () => Promise.reject(new Error('away')) },
        logger: { ...silentLogger, warn: (_, message) => void said.push(message) },
      },
      await operatorCaller(api.deps),
      { purpose: 'catalog', isCompromised: false },
    );
    expect(rotation.isNew).toBe(true);
    expect(said).toEqual(['a rotated signing key could not be loaded yet']);
    await api.deps.signingKeys.reload();
    expect(api.deps.signingKeys.all()).toContainEqual(rotation.next);
  });
});
