import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { parseVocabulary, renderVocabulary, Vocabulary } from '../../shared/wire/authzen-vocabulary.ts';
import { callerOf } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { setVocabulary } from './set-vocabulary.ts';
import { readVocabulary } from './vocabulary-store.ts';

/** The words of an account's policy enforcement points for its gates and permissions (contract §16). */
export function authzenVocabularyRoutes(deps: SigningDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/authzen/vocabulary',
      { config: { scope: 'gates:read' }, schema: { response: { 200: Vocabulary } } },
      async (request) => renderVocabulary(await readVocabulary(deps.sql, callerOf(request))),
    );

    app.put(
      '/authzen/vocabulary',
      { config: { scope: 'gates:update' }, schema: { body: Vocabulary, response: { 200: Vocabulary } } },
      async (request) => setVocabulary(deps, callerOf(request), parseVocabulary(request.body)),
    );
  };
}
