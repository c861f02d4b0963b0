import { must } from '../../../shared/errors/assert.ts';
import { call } from '../base/http-client.ts';
import type { Api, Reply } from '../service/api.ts';
import type { DecisionCase } from './decision-case.ts';
import { forgeToken } from './forge-token.ts';
import { httpStage } from './http-stage.ts';
import { bringAbout, type CaseRoom, setUpCases } from './http-world.ts';
import { withProof } from './make-proof.ts';
import { playEarlier } from './play-case.ts';
import { type Program, plainly, type WayIn } from './ways-in.ts';

const programOf = (api: Api, origin: string, call: Program['call']): Program => ({
  origin,
  call,
  check: (gateId, passport, request, key = api.adminKey) =>
    call({
      path: gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`,
      key,
      body: { passport, request },
    }),
});

const withoutSocket = (api: Api): Program =>
  programOf(api, '', ({ path, ...rest }) => api.call({ url: path, ...rest }));

/** Listens from then on. */
export async function withSocket(api: Api): Promise<Program> {
  const origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
  return programOf(api, origin, ({ path, key, ...rest }) =>
    call(`${origin}${path}`, { ...rest, ...(typeof key === 'string' ? { key } : {}) }).then((reply) => ({
      ...reply,
      headers: Object.fromEntries(reply.headers),
    })),
  );
}

/** Sets the case up, plays what came before, and asks, by default without a socket. */
export async function playAtControlPlane(
  api: Api,
  room: CaseRoom,
  decisionCase: DecisionCase,
  wayIn: WayIn = plainly,
  program: Program = withoutSocket(api),
): Promise<Reply> {
  const { forgery } = decisionCase;
  const [world] = await setUpCases(api, room, decisionCase, 1);
  const { props, about } = must(world, 'one was asked for');
  const ask = (gateId: string | null, token: string, request: object) =>
    wayIn.ask(program, {
      gateId,
      token,
      request: withProof({ ...request }, token, api.deps.clock.now()),
      key: props.key,
    });
  const stage = httpStage(api, props, { check: ask, caughtUp: () => Promise.resolve() });
  const request = await playEarlier(stage, decisionCase);
  await bringAbout(api, decisionCase, about);
  const token = props.tokens['the passport'];
  const presented = forgery === null ? token : forgeToken(forgery, token, room.publicKey);
  return ask(props.gateIds['the gate'], presented, request);
}
