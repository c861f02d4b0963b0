import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { parseVocabulary, renderVocabulary, Vocabulary } from '../../shared/wire/api/authzen-vocabulary.ts';
import { callerOf } from '../http/caller.ts';
import { exampleIds } from '../http/example-ids.ts';
import { operationsOf } from '../http/operation.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { setVocabulary } from './set-vocabulary.ts';
import { readVocabulary } from './vocabulary-store.ts';

const api = operationsOf('Enforcement', {
  getAuthzenVocabulary: { scope: 'gates:read', summary: 'Get the AuthZEN vocabulary of the account' },
  setAuthzenVocabulary: {
    scope: 'gates:update',
    summary: 'Replace the AuthZEN vocabulary of the account',
    description:
      'What the resources and actions of AuthZEN evaluations and searches are called here: which gate decides about a resource, and which ' +
      'permission an action is. The first entry that fits counts. See docs/integrations/authzen.md.',
    examples: {
      records: {
        value: {
          resources: [
            {
              type: 'record',
              id: 'record-1',
              gate_id: exampleIds.gateId,
              properties: { status: 'archived' },
            },
          ],
          actions: [
            {
              resource_type: 'record',
              name: 'write',
              permission_key: 'records:write-archived',
              when: { resource: { status: 'archived' } },
            },
            { resource_type: 'record', name: 'write', permission_key: 'records:write' },
          ],
        },
      },
    },
  },
});

/** The words of an account's policy enforcement points for its gates and permissions (contract §16). */
export function authzenVocabularyRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/authzen/vocabulary',
      { config: api.getAuthzenVocabulary, schema: { response: { 200: Vocabulary } } },
      async (request) => renderVocabulary(await readVocabulary(deps.sql, callerOf(request))),
    );

    app.put(
      '/authzen/vocabulary',
      { config: api.setAuthzenVocabulary, schema: { body: Vocabulary, response: { 200: Vocabulary } } },
      async (request) => setVocabulary(deps, callerOf(request), parseVocabulary(request.body)),
    );
  };
}
