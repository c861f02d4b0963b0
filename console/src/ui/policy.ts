export { policyInWords } from '../../../shared/model/policy-in-words.ts';
