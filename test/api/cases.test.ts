import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { casesWithin, expectAnswer } from '../support/cases/load-cases.ts';
import { type CaseRoom, caseRoomOf, playAtControlPlane } from '../support/cases/play-at-control-plane.ts';
import { exportText } from '../support/exports.ts';
import { replayText } from '../support/replay.ts';

/**
 * The control plane decides on what it reads from the database at that moment, so that its state has no age.
 * Its clock runs on, which is too coarse for cases that ask for one millisecond.
 */
const cases = casesWithin([]);

let api: Api;
let room: CaseRoom;

beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  room = await caseRoomOf(api);
});
afterAll(() => api.close());

describe('the control plane', () => {
  it('plays nearly all cases', () => {
    expect(cases.length).toBeGreaterThan(100);
  });

  it.each(cases)('$name', async (decisionCase) => {
    const reply = await playAtControlPlane(api, room, decisionCase);
    expect(reply.status).toBe(200);
    expectAnswer(reply.body, decisionCase.want);
  });

  it('leaves records that give the same decisions again', async () => {
    const report = replayText(await exportText(api));
    expect(report.contradictions).toEqual([]);
    expect(report.over_limits).toEqual([]);
  });
});
