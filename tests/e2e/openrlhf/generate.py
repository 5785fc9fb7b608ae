"""Generate with vLLM and write what the plugin returns: `python generate.py MODEL OUT '{"n": 8, ...}'`.

VLLM_TOKEN_ENTROPY chooses the mode. `time` says how often generation is timed.
"""

import json
import sys
import time
from pathlib import Path


def main():
    model, out, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    from vllm import LLM, SamplingParams

    from dare_trainer.vllm.token_entropy import EntropyError, token_entropies

    engine = {"dtype": "float32", "max_model_len": 512, "enforce_eager": True, "seed": 1, "gpu_memory_utilization": 0.1}
    llm = LLM(model=model, **engine | options.get("engine", {}))
    text = "<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n"
    prompts = [{"prompt_token_ids": llm.get_tokenizer().encode(text)}] * options["n"]
    shared = {"temperature": options["temperature"], "max_tokens": options["tokens"], "ignore_eos": True}
    rows = []
    for o in llm.generate(prompts, SamplingParams(**shared, logprobs=0), use_tqdm=False):
        done = o.outputs[0]
        try:
            entropies = token_entropies(done).tolist()
        except EntropyError as error:
            entropies = str(error)
        rows.append({"prompt": list(o.prompt_token_ids), "ids": list(done.token_ids), "entropies": entropies})
    result = {"rows": rows, "vocabulary": llm.llm_engine.model_config.get_vocab_size()}
    if options.get("topk"):
        result["topk"] = []
        for o in llm.generate(prompts, SamplingParams(**shared, logprobs=20), use_tqdm=False):
            done, prompt = o.outputs[0], list(o.prompt_token_ids)
            top = [sorted((e.logprob for e in row.values()), reverse=True)[:20] for row in done.logprobs]
            result["topk"].append({"prompt": prompt, "ids": list(done.token_ids), "logprobs": top})
    if options.get("time"):
        seconds = []
        for _ in range(options["time"]):
            begun = time.perf_counter()
            llm.generate(prompts, SamplingParams(**shared, logprobs=0), use_tqdm=False)
            seconds.append(time.perf_counter() - begun)
        result["seconds"] = min(seconds)
    Path(out).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
