import { expect } from 'vitest';
import type { DecisionCase, Place, Presenter } from './decision-case.ts';

/**
 * Something that decides, with a case set up on it: the passports and gates of the case are there, and
 * everything is well.
 */
export interface Stage {
  /** Resolves to the answer of `check` or `enforce`, after status 200. */
  ask(asked: {
    readonly by: Presenter;
    readonly at: Place;
    readonly request: Readonly<Record<string, unknown>>;
  }): Promise<Readonly<Record<string, unknown>>>;
  /** A person's word on an approval. */
  resolve(approvalId: string, word: 'approve' | 'deny'): Promise<void>;
  /** Resolves when the time of the approval is over. */
  waitForExpiry(approvalId: string): Promise<void>;
  /** Changes the policy of the gate of the case in a way that no decision depends on. */
  changePolicy(): Promise<void>;
  /** Changes the name of the gate of the case, and nothing else. */
  renameGate(): Promise<void>;
}

/** Plays what came before the request of the case, and answers that request as it has to be sent. */
export async function playEarlier(
  stage: Stage,
  { earlier, approval, gate, request }: DecisionCase,
): Promise<Readonly<Record<string, unknown>>> {
  for (const { decision, ...asked } of earlier) {
    const answer = await stage.ask(asked);
    expect(answer, 'an earlier request').toMatchObject({ decision });
  }
  if (approval === null) return request;

  const at = gate === null ? 'no gate' : 'the gate';
  const opened = await stage.ask({ by: approval.by, at, request: approval.request });
  expect(opened, 'the request that waits').toMatchObject({ decision: 'SUSPEND' });
  const approvalId = String(opened['approval_id']);
  switch (approval.became) {
    case 'pending':
      break;
    case 'denied':
      await stage.resolve(approvalId, 'deny');
      break;
    case 'expired':
      await stage.waitForExpiry(approvalId);
      break;
    case 'approved':
      await stage.resolve(approvalId, 'approve');
      break;
    case 'gate changed':
      await stage.resolve(approvalId, 'approve');
      await stage.changePolicy();
      break;
    case 'gate renamed':
      await stage.resolve(approvalId, 'approve');
      await stage.renameGate();
      break;
    case 'used': {
      await stage.resolve(approvalId, 'approve');
      const again = {
        by: approval.by,
        at,
        request: { ...approval.request, approval_id: approvalId },
      } as const;
      expect(await stage.ask(again), 'the approved request').toMatchObject({ decision: 'PERMIT' });
    }
  }
  return approval.isPresented ? { ...request, approval_id: approvalId } : request;
}

/** Whether something came before, so that a runner has to be ready for it. */
export const hasEarlier = ({ earlier, approval }: DecisionCase): boolean =>
  earlier.length > 0 || approval !== null;
