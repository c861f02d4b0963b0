import {
  openSpool as openRealSpool,
  type RecordOwner,
  type Spool,
  type SpoolOptions,
} from '../../sidecar/attest/spool.ts';

/**
 * A spool that takes records and keeps none: their owners are notified at the end of the turn, as by the real
 * one, and nothing is rendered, written, synced or shipped.
 */
export async function openSpool(options: SpoolOptions): Promise<Spool> {
  let owners: RecordOwner[] = [];
  const endTurn = () => {
    const ofTurn = owners;
    owners = [];
    for (const owner of ofTurn) owner.onWritten();
  };
  const append = (_record: unknown, owner: RecordOwner) => {
    if (owners.push(owner) === 1) setImmediate(endTurn);
  };
  return Object.assign(await openRealSpool(options), { append });
}
