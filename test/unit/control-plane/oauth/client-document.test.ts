import { describe, expect, it } from 'vitest';
import { clientDocumentFetch } from '../../../../control-plane/oauth/client-document.ts';
import { oauthLimits } from '../../../../control-plane/oauth/limits.ts';
import type { GuardedAnswer, GuardedFetch } from '../../../../control-plane/outbox/guarded-fetch.ts';

const document = { client_id: 'https://a.example/x', redirect_uris: ['https://a.example/cb'] };
const answer: GuardedAnswer = {
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(JSON.stringify(document)),
  isCut: false,
};

/** Answers nobody until it is told to. */
function slowWorld() {
  const waiting: (() => void)[] = [];
  const outbound: Pick<GuardedFetch, 'request'> = {
    request: () => new Promise((resolve) => waiting.push(() => resolve(answer))),
  };
  const fetch = clientDocumentFetch({
    outbound: { ...outbound, checkTarget: () => undefined, close: async () => undefined },
  });
  const answerAll = () => {
    for (const each of waiting.splice(0)) each();
  };
  return { fetch, waiting, answerAll };
}

it('leaves the connections of a host to its webhooks, and of the others to them', async () => {
  const { fetch, waiting, answerAll } = slowWorld();
  const first = Array.from({ length: oauthLimits.clientFetchesPerHostMax }, (_, n) =>
    fetch(`https://a.example/${n}`),
  );
  await expect(fetch('https://a.example/more')).rejects.toThrow('too many');
  const elsewhere = fetch('https://b.example/x');
  expect(waiting).toHaveLength(oauthLimits.clientFetchesPerHostMax + 1);
  answerAll();
  for (const { status } of await Promise.all([...first, elsewhere])) expect(status).toBe(200);
  const again = fetch('https://a.example/more');
  answerAll();
  expect((await again).status).toBe(200);
});

it('fetches so many at once and no more', async () => {
  const { fetch, answerAll } = slowWorld();
  const max = oauthLimits.clientFetchesAtOnceMax;
  const all = Array.from({ length: max }, (_, n) => fetch(`https://host-${n}.example/x`));
  await expect(fetch('https://one-more.example/x')).rejects.toThrow('too many');
  answerAll();
  expect(await Promise.all(all)).toHaveLength(max);
});

describe('a document', () => {
  const fetchAs = (headers: Readonly<Record<string, string>>) =>
    clientDocumentFetch({
      outbound: {
        request: async () => ({ ...answer, headers }),
        checkTarget: () => undefined,
        close: async () => undefined,
      },
    })('https://a.example/x');

  it.each(['application/json', 'Application/JSON; charset=utf-8', 'application/oauth-client-metadata+json'])(
    'is what its host calls one: %s',
    async (type) => {
      expect(await (await fetchAs({ 'content-type': type })).json()).toMatchObject(document);
    },
  );

  it.each([
    { 'content-type': 'text/html' },
    { 'content-type': 'text/plain; charset=utf-8' },
    { 'content-type': 'text/x+json' },
    {},
  ])('is nothing that somebody has put on a host that calls it something else: %j', async (headers) => {
    await expect(fetchAs(headers)).rejects.toThrow('not JSON');
  });
});
