import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';

/**
 * The Todo scenario of the AuthZEN interoperability events (authzen-interop.net, Todo 1.1), carried over: a
 * subject is an agent with a passport, the resource is the gate of the Todo application, and roles are the
 * permissions of the passport. Only the application knows to whom a todo belongs, so it asks for another
 * permission where the todo is somebody else's. The payloads of the event name users and todos, about which
 * no gate decides, and cannot be sent as they are.
 */
const readers = ['users:read', 'todos:read'];
const editors = [...readers, 'todos:create', 'todos:update-own', 'todos:delete-own'];
const permissionsOf = {
  rick: [...editors, 'todos:delete-any', 'todos:update-any'],
  morty: editors,
  summer: editors,
  beth: readers,
  jerry: readers,
} as const;
type Person = keyof typeof permissionsOf;
const people = Object.keys(permissionsOf) as Person[];

/** Who may, by the scenario's own table of roles. */
const may: Readonly<Record<string, readonly Person[]>> = {
  'users:read': people,
  'todos:read': people,
  'todos:create': ['rick', 'morty', 'summer'],
  'todos:update-own': ['rick', 'morty', 'summer'],
  'todos:update-any': ['rick'],
  'todos:delete-own': ['rick', 'morty', 'summer'],
  'todos:delete-any': ['rick'],
};

describe('the Todo scenario of the AuthZEN interoperability events', () => {
  let api: Api;
  let sidecar: TestSidecar;
  let gateId: string;
  const subjects = new Map<Person, object>();
  beforeAll(async () => {
    api = await startApi();
    sidecar = await startTestSidecar({ api });
    gateId = (await api.createGate()).gate_id;
    for (const person of people) {
      const passport = await api.issuePassport({ agent_id: person, permissions: permissionsOf[person] });
      subjects.set(person, { type: 'agent', id: person, properties: { passport: passport.jwt } });
    }
    await sidecar.caughtUp();
  });
  afterAll(async () => {
    await sidecar.close();
    sidecar.removeFolder();
    await api.close();
  });

  const evaluate = async (path: string, body: object) =>
    (await sidecar.call({ method: 'POST', path: `/access/v1/${path}`, body })).body;
  const resource = (todo: string) => ({ type: 'gate', id: gateId, properties: { todo } });

  it.each(Object.entries(may))(
    '%s is permitted to agents that have it, and to no others',
    async (name, who) => {
      const permitted: Person[] = [];
      for (const person of people) {
        const question = { subject: subjects.get(person), action: { name }, resource: resource('7240d0db') };
        if ((await evaluate('evaluation', question)).decision === true) permitted.push(person);
      }
      expect(permitted).toEqual(who);
    },
  );

  it.each(people)('a page of todos asks for all of them at once, as %s', async (person) => {
    const todos = ['rick', 'morty', 'summer', 'beth', 'jerry'] as const;
    const answer = await evaluate('evaluations', {
      subject: subjects.get(person),
      evaluations: todos.map((owner) => ({
        action: { name: owner === person ? 'todos:update-own' : 'todos:update-any' },
        resource: resource(`todo of ${owner}`),
      })),
    });
    const decisions: boolean[] = answer.evaluations.map((each: { decision: boolean }) => each.decision);
    const expected = todos.map((owner) =>
      may[owner === person ? 'todos:update-own' : 'todos:update-any']?.includes(person),
    );
    expect(decisions).toEqual(expected);
  });
});
