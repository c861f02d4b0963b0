import * as errors from 'oidc-provider/lib/helpers/errors.js';
import * as interactionPolicy from 'oidc-provider/lib/helpers/interaction_policy/index.js';
import { Provider } from 'oidc-provider/lib/provider.js';

/**
 * The parts of `oidc-provider` that are used here, loaded when this module is first imported. They come from
 * their own files and not from the entry point of the package, which re-exports the same three and does one
 * thing more: on Node 20 it prints a warning that asks for Node 22, between log lines that are JSON. The
 * package restricts no imports; its version is pinned, and a test loads these files.
 */
export { errors, interactionPolicy, Provider };
