import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import type { Signer } from '../../shared/crypto/ed25519.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import type {
  DecisionReceipt,
  ReceiptStatement,
  SidecarCertificate,
} from '../../shared/wire/evidence/decision-receipt.ts';
import type { Spool } from '../../sidecar/attest/spool.ts';
import { nodeFiles } from '../../sidecar/attest/spool-files.ts';
import { Receipts } from '../../sidecar/decide/receipts.ts';
import { useFolder } from '../support/base/use.ts';
import { openTestSpool } from '../support/data/spooled.ts';
import { inParts, spooledRecord } from '../support/data/spooled-record.ts';

const folder = useFolder();

const real = chooseEd25519().signer(Buffer.alloc(32, 9));
let signatures = 0;
const signer: Signer = {
  publicKey: real.publicKey,
  sign: (message) => {
    signatures += 1;
    return real.sign(message);
  },
};
const certificate = { kid: 'of a test' } as SidecarCertificate;
const statement = (place = 0) => ({ attestation_id: `att_${place}` }) as ReceiptStatement;
const receiptsOf = (spool: Pick<Spool, 'whenDurable'>) =>
  new Receipts({
    ...{ key: { certified: { signer, certificate }, mayIssueAt: () => true, untilMsAt: () => null } },
    ...{ spool, history: () => null, logger: silentLogger },
  });

/** What the owner of a record is given that asks for a receipt once it is written. */
const receiptAfter = (spool: Spool) =>
  new Promise<DecisionReceipt | 'lost' | 'failed'>((resolve) => {
    const receipts = receiptsOf(spool);
    spool.append(inParts(spooledRecord()), {
      onWritten: () => receipts.issue(statement(), true, (receipt) => resolve(receipt ?? 'lost')),
      onFailed: () => resolve('failed'),
    });
  });

describe('a receipt', () => {
  it.each([0, 20])('is signed when the disk has the record, SPOOL_FSYNC_MS %d', async (fsyncMs) => {
    const calls: string[] = [];
    const files = {
      ...nodeFiles,
      syncData: async (file: number) => {
        await nodeFiles.syncData(file);
        calls.push('synced');
      },
    };
    const spool = await openTestSpool(folder.path, { files, fsyncMs });
    calls.length = 0;
    const receipt = receiptAfter(spool).then((signed) => {
      calls.push('signed');
      return signed;
    });
    expect(await receipt).toMatchObject({ statement: statement(), index: 0, size: 1, certificate });
    expect(calls).toEqual(['synced', 'signed']);
    await spool.close();
  });

  it('is not given where the write fails, nor where the disk does not keep what was written', async () => {
    for (const [broken, outcome] of [
      ['write', 'failed'],
      ['syncData', 'lost'],
    ] as const) {
      const files = { ...nodeFiles };
      const spool = await openTestSpool(`${folder.path}/${broken}`, { files });
      signatures = 0;
      const fails = (): never => {
        throw new Error('EIO');
      };
      if (broken === 'write') files.write = fails;
      else files.syncData = async () => fails();
      expect(await receiptAfter(spool)).toBe(outcome);
      expect(signatures).toBe(0);
      await spool.close();
    }
  });

  it('reaches the others of its turn where one answer fails', async () => {
    const receipts = receiptsOf({ whenDurable: (onSettled) => onSettled('durable') });
    const told: string[] = [];
    for (const place of [0, 1, 2])
      receipts.issue(statement(place), false, (receipt) => {
        if (place === 0) throw new Error('a client that cannot be answered');
        told.push(receipt?.statement.attestation_id ?? '');
      });
    await Promise.resolve();
    expect(told).toEqual(['att_1', 'att_2']);
  });
});
