import fc from 'fast-check';
import { expect, it } from 'vitest';
import { idOfUuid, uuidOfId } from '../../../control-plane/attestations/id-uuid.ts';
import { isId, makeId } from '../../../shared/model/ids.ts';
import { latestUnixMs, type UnixMillis } from '../../../shared/model/time.ts';

const dashed = (hex: string) => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

it('an id is the same after its way through a uuid', () => {
  const id = fc
    .tuple(fc.integer({ min: 0, max: latestUnixMs }), fc.uint8Array({ minLength: 10, maxLength: 10 }))
    .map(([timeMs, random]) => makeId('att', timeMs as UnixMillis, random));
  fc.assert(
    fc.property(id, (each) => {
      expect(idOfUuid(dashed(uuidOfId(each)))).toBe(each);
    }),
  );
});

it('any uuid is an id, and the same after its way through it', () => {
  const bits = fc
    .uint8Array({ minLength: 16, maxLength: 16 })
    .map((bytes) => Buffer.from(bytes).toString('hex'));
  fc.assert(
    fc.property(bits, (hex) => {
      const id = idOfUuid(dashed(hex));
      expect(isId('att', id)).toBe(true);
      expect(uuidOfId(id)).toBe(hex);
    }),
  );
});
