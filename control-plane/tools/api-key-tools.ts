import { ApiKeyCreation, NewApiKeyAnswer, parseApiKeyCreation } from '../../shared/wire/api/api-key.ts';
import { createApiKeyUseCase } from '../api-keys/create-api-key-use-case.ts';
import { createNow } from './create-now.ts';
import { defineTool } from './tool.ts';

export const createApiKey = defineTool({
  name: 'create_api_key',
  title: 'Create an API key',
  description:
    'Creates an API key with the scopes that are named, each of which the access token must hold itself. The answer holds the key, ' +
    'shown this once: keep it safe, and grant only what is needed.',
  scope: createApiKeyUseCase.scope,
  hints: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  input: ApiKeyCreation,
  output: NewApiKeyAnswer,
  run: (deps, caller, args) =>
    createNow(
      deps,
      caller,
      createApiKeyUseCase.creation(deps, caller, parseApiKeyCreation(args, deps.clock.now())),
    ),
});
