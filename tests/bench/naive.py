"""The route that one writes first: lists of lists of floats into a pydantic model. What the frame is measured against."""

import sys

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Group(BaseModel):
    group_id: str
    answers: list[str]
    token_entropies: list[list[float]]


class Body(BaseModel):
    groups: list[Group]


@app.post("/reward")
async def reward(body: Body) -> dict[str, list[list[float]]]:
    return {"rewards": [[float(np.mean(e)) for e in g.token_entropies] for g in body.groups]}


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="critical")
