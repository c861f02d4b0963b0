import type { Api } from '../api.ts';
import type { DecisionCase } from './decision-case.ts';
import { forgeToken } from './forge-token.ts';
import { httpStage } from './http-stage.ts';
import { type Account, bringAbout, keysOf, newAccount, passportKeyOf, setUpCase } from './http-world.ts';
import { withProof } from './make-proof.ts';
import { playEarlier } from './play-case.ts';

export interface CaseRoom {
  readonly ownKeys: Account['keys'];
  readonly publicKey: Uint8Array;
}

export const caseRoomOf = async (api: Api): Promise<CaseRoom> => ({
  ownKeys: await keysOf(api, api.adminKey),
  publicKey: await passportKeyOf(api),
});

/** With a foreign account of the case's own; plays what came before, and asks. */
export async function playAtControlPlane(api: Api, room: CaseRoom, decisionCase: DecisionCase) {
  const { forgery } = decisionCase;
  const accounts = { own: { keys: room.ownKeys }, foreign: await newAccount(api) };
  const { props, about } = await setUpCase(api, decisionCase, accounts);
  const check = (gateId: string | null, token: string, request: object) =>
    api.call({
      url: gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`,
      key: props.key,
      body: { passport: token, request: withProof({ ...request }, token, api.deps.clock.now()) },
    });
  const stage = httpStage(api, props, { check, caughtUp: () => Promise.resolve() });

  const request = await playEarlier(stage, decisionCase);
  await bringAbout(api, decisionCase, about);
  const token = props.tokens['the passport'];
  return check(
    props.gateIds['the gate'],
    forgery === null ? token : forgeToken(forgery, token, room.publicKey),
    request,
  );
}
