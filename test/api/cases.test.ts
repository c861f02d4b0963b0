import { beforeAll, describe, expect, it } from 'vitest';
import { fewCases } from '../support/cases/few-cases.ts';
import { type CaseRoom, caseRoomOf } from '../support/cases/http-world.ts';
import { casesWithin, expectAnswer } from '../support/cases/load-cases.ts';
import { playAtControlPlane, withSocket } from '../support/cases/play-at-control-plane.ts';
import {
  batch,
  check,
  enforce,
  evaluation,
  evaluations,
  type Program,
  ruleAgainst,
} from '../support/cases/ways-in.ts';
import { replayText } from '../support/data/replay.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { exportText } from '../support/service/exports.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * The control plane decides on what it reads from the database at that moment, so that its state has no age.
 * Its clock runs on, which is too coarse for cases that ask for one millisecond.
 */
const cases = casesWithin([]);
const doors = [check, enforce, batch, evaluation, evaluations].map((wayIn) => ({
  wayIn,
  few: fewCases(cases.filter((each) => ruleAgainst(each, wayIn) === null)),
}));
const played = doors.flatMap(({ wayIn, few }) => few.map((each) => ({ wayIn, name: each.name, each })));

const api = useApi(startOwnApi);
let room: CaseRoom;
let program: Program;

beforeAll(async () => {
  goToNoon(api);
  room = await caseRoomOf(api);
  program = await withSocket(api);
});

describe('the control plane', () => {
  it('plays nearly all cases', () => {
    expect(cases.length).toBeGreaterThan(240);
  });

  it.concurrent.each(cases)('$name', async (decisionCase) => {
    const reply = await playAtControlPlane(api, room, decisionCase);
    expect(reply.status).toBe(200);
    expectAnswer(reply.body, decisionCase.want);
  });

  it.concurrent.each(played)('by $wayIn.name over HTTP: $name', async ({ wayIn, each }) => {
    const reply = await playAtControlPlane(api, room, each, wayIn, program);
    expect(reply.status).toBe(200);
    expectAnswer(reply.body, each.want);
  });
});

it('leaves records that give the same decisions again', async () => {
  const report = replayText(await exportText(api));
  expect(report.contradictions).toEqual([]);
  expect(report.over_limits).toEqual([]);
});
